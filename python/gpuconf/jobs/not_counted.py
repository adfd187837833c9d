# SPDX-License-Identifier: Apache-2.0
"""What the guard does not count: the same words in docs/guard.md, in ``gpuconf doctor`` and in the reports of ``gpuconf
run``.
"""

from __future__ import annotations

NOT_COUNTED = (
    "a context's own memory: some hundred MiB for each process and card, with code, stacks and the buffer of printf()",
    "global variables of modules and libraries (cuModuleLoad*, cuLibraryLoad*), which may be gigabytes",
    "the heap of malloc() on the device (cuCtxSetLimit with CU_LIMIT_MALLOC_HEAP_SIZE); the log names processes that "
    "set it",
    "graphics: OpenGL, Vulkan, EGL and VDPAU, and what CUDA maps of them (cuGraphics*, cuImportExternalMemory)",
    "memory imported from outside the job (cuIpc*, shareable handles, pools)",
    "what is allocated through the unnamed functions of cuGetExportTable, and in the driver for itself",
    "memory of an MPS server, and what only a logical endpoint of CUDA 13.3 still refers to",
    "the padding of arrays",
)
"""Each is a kind of device memory that a program under the guard may have beyond its limit."""
