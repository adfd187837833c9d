// Package cabi holds gpuconf's C symbols: the allocator for those who call it without Python, and the scope of a thread.
//
// The symbols of python/gpuconf/include/gpuconf.h are C functions (abi.c); behind them stand the Go functions of abi.go. A
// thread's scope is a C thread-local: Python writes it through SetScope, gpuconf_malloc reads it without entering Go.
//
// Without cgo there is no C caller; the scope is then one variable, which serves the tests of what lies below.
package cabi
