//go:build cgo

package cabi

// #cgo CFLAGS: -fexceptions
// #include <stdlib.h>
// #include "abi.h"
import "C"

import (
	"unsafe"

	"gpuconf/gocore/gpu"
	"gpuconf/pybind/runtime"
)

// A goroutine that was called from C stays on the caller's thread, so these see the thread that Python runs on.
func writeScope(word int64) { C.gcgo_scope_write(C.int64_t(word)) }
func readScope() int64      { return int64(C.gcgo_scope_read()) }

//export gcgo_empty
func gcgo_empty(value C.int) C.int { return value }

//export gcgo_malloc
func gcgo_malloc(size C.size_t, device C.int, stream C.uintptr_t, scope C.int64_t) (addr C.uintptr_t) {
	var err error
	defer tell(&err)
	defer runtime.Gate(&err)
	var given uint64
	given, err = malloc(uint64(size), int(device), scopeOf(int64(scope)), gpu.Stream(stream))
	return C.uintptr_t(given)
}

//export gcgo_free
func gcgo_free(addr C.uintptr_t) {
	var err error
	defer tell(&err)
	defer runtime.Gate(&err)
	err = free(uint64(addr))
}

// malloc allocates on the logical GPU that the scope names if it lies on this device, else on the one that the stream stands for, else
// on the device's first.
func malloc(size uint64, device int, scope int64, stream gpu.Stream) (uint64, error) {
	m, err := runtime.Shared().Manager()
	if err != nil {
		return 0, err
	}
	block, err := m.AllocateOn(device, int(scope), stream, size)
	return block.Addr, err
}

func free(addr uint64) error {
	m, err := runtime.Shared().Manager()
	if err != nil {
		return err
	}
	return m.Free(addr)
}

// tell keeps an error's text where gpuconf_last_error finds it. It runs after the gate; marks mean nothing to C.
func tell(err *error) {
	if *err == nil {
		return
	}
	text := C.CString(runtime.Unmark(*err))
	defer C.free(unsafe.Pointer(text))
	C.gcgo_tell(text)
}
