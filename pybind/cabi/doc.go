// SPDX-License-Identifier: Apache-2.0

// Package cabi contains gpuconf's C symbols: the allocator for C callers, and each thread's device scope.
//
// The symbols of python/gpuconf/include/gpuconf.h are C functions (abi.c), which call the Go functions of abi.go. A
// thread's scope is a C thread-local: for Python, pybind/_gpuconf/scope.c writes it. gpuconf_malloc reads it without
// entering Go.
package cabi
