# SPDX-License-Identifier: Apache-2.0
"""What operations of PyTorch compute on simulated GPUs. Imported only after PyTorch, where GPUs are simulated for it.

PyTorch's kernels for CUDA run first: they allocate as on a card, and their launches do nothing. Then the CPU computes
the same operation on tensors that lie in the same simulated memory, which is host memory.
"""
