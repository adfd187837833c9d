// SPDX-License-Identifier: Apache-2.0

// Package nvml implements gpu.Monitor with NVIDIA's management library (NVML): which GPUs the machine has, how much of
// their memory is used, and by which processes, without a CUDA context. It calls libnvidia-ml.so.1 through NVIDIA's
// go-nvml.
//
// # How the library is found
//
// No NVIDIA software is needed to build, import or start. Open loads the library when it is called, from one of the
// candidates; if there is none, the error lists what it tried. It is unloaded when the last Monitor closes, because
// a process that has it cannot simulate GPUs. Other code in the process may keep it.
//
// # Trampolines
//
// go-nvml calls some four hundred functions as if the library were linked, and relies on the loader to bind each at
// its first call. In Python this fails: Python loads extensions with RTLD_NOW, which requires that all functions are
// found. So does LD_BIND_NOW, and a linker that binds eagerly by default. With lazy binding, calling a function that
// the driver lacks ends the process.
//
// So this package defines all of the functions (trampolines.h). Each is one jump through a table, which Open fills.
// This guarantees:
//
//  1. No nvml symbol of ours is undefined, and none is visible outside the library or executable that we are linked
//     into.
//  2. Before the library is loaded, every call returns NVML_ERROR_UNINITIALIZED. Afterwards, a call to a function that
//     the library lacks returns NVML_ERROR_FUNCTION_NOT_FOUND.
//  3. The table is filled when the first Monitor opens, and emptied when the last one closes.
//  4. go-nvml's own symbol lookups find only the driver's library: they use its handle, and our definitions are hidden.
//
// pybind/build/generate.py writes symbols.h, the list of functions, from go-nvml's source; a test checks it against the
// version in go.mod.
//
// # Peculiarities of NVML
//
//   - Its order of GPUs differs from CUDA's, and it ignores CUDA_VISIBLE_DEVICES.
//   - GPUs that share the host's memory (GB10, Jetson) do not support memory queries, or answer with wrong numbers: see
//     Card.MemoryKind.
//   - In a container, PIDs are the host's, unless the container shares the host's PID namespace.
//   - Under WSL no processes are listed. If the driver does not know a process's memory, it returns all ones.
//   - In a container with only a MIG instance, some properties of its card cannot be read.
//   - A function gets a new version when its structure grows; go-nvml calls the newest version that the library has.
//
// # Locks
//
// library guards the process-wide state: the table and go-nvml's state. A Monitor's own lock is held for reading during
// every call and for writing by Close.
package nvml
