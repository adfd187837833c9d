// SPDX-License-Identifier: Apache-2.0

package config

// ContextBytes returns the device memory that a process's CUDA context takes on a card, by the major number of its
// compute capability: what a lease reserves beside its memory for each process that uses the card.
//
// No API returns it before the context exists. It grows with the number of multiprocessors, 3 to 4 MiB for each since
// compute capability 8, so the value is that of the largest card of an architecture with a public figure. Kernels that
// a library loads come on top: PyTorch's and cuDNN's are loaded when they are first used. Figures, all for one process
// that has allocated nothing or next to nothing:
//
//	306 MiB  Tesla K80, 13 multiprocessors, CUDA 8, PyTorch 0.4's kernels   github.com/pytorch/pytorch/issues/7320
//	320 MiB  Titan V, 80 multiprocessors, CUDA 10, PyCUDA                         github.com/pytorch/pytorch/issues/28394
//	256 MiB  RTX 3090, 82 multiprocessors, PyTorch 2.7                            github.com/invoke-ai/InvokeAI/issues/9413
//	426 MiB  RTX 6000 Ada, 142 multiprocessors, PyTorch 2.10                      github.com/unslothai/unsloth-zoo/pull/1053
//	107 MiB  RTX 4060 Ti, 34 multiprocessors                                      github.com/ggml-org/llama.cpp/pull/23604
//	555 MiB  RTX PRO 6000 Blackwell, 188 multiprocessors                          github.com/ggml-org/llama.cpp/pull/23604
//	524 MiB  H200, 132 multiprocessors, driver 580.159, measured with NVML        docs/gpu-results.md
//
// On that H200 PyTorch 2.11's first tensor made it 616 MiB, and its first matrix product 682 MiB.
//
// A small card, or an instance of a large one, has few multiprocessors: it is at most an eighth of totalBytes.
func ContextBytes(totalBytes uint64, computeMajor int) uint64 {
	const mostPart = 8
	usual := uint64(576 * mib)
	switch {
	case computeMajor <= 7:
		usual = 320 * mib
	case computeMajor == 8:
		usual = 448 * mib
	case computeMajor == 9:
		usual = 528 * mib
	}
	return min(usual, totalBytes/mostPart)
}
