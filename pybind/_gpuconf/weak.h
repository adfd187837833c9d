/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's functions are weak symbols, so that a C program without Python can link with this library and load it. Only
 * what Python calls uses them: PyInit__gpuconf and what it returns. The C API (pybind/cabi) runs without an
 * interpreter.
 *
 * Python.h declares all that it offers with these two macros, and defines them only where nobody has. Included before
 * everything else (weak.go). A test fails if the library needs one that is not weak.
 */
#define PyAPI_FUNC(type) __attribute__((visibility("default"), weak)) type
#define PyAPI_DATA(type) extern __attribute__((visibility("default"), weak)) type
