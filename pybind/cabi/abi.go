// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cabi

// #cgo CFLAGS: -fexceptions
// #include <stdlib.h>
// #include "abi.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/pybind/process"
)

// A goroutine called from C stays on the caller's thread, so these use the thread that Python runs on.
func writeScope(word int64) { C.gcgo_scope_write(C.int64_t(word)) }
func readScope() int64      { return int64(C.gcgo_scope_read()) }
func writeTag(t holder.Tag) { C.gcgo_tag_write(C.uint16_t(t)) }
func readTag() holder.Tag   { return holder.Tag(C.gcgo_tag_read()) }
func readSite() uint32      { return uint32(C.gcgo_site_read()) }

func writeStacks(on bool) {
	value := int32(0)
	if on {
		value = 1
	}
	atomic.StoreInt32((*int32)(unsafe.Pointer(&C.gcgo_stacks)), value)
}

func writeGeneration(generation uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&C.gcgo_generation)), generation)
}

func writeCaptureInfo(function uintptr) { C.gcgo_capture_info_write(C.uintptr_t(function)) }

func idleFunction() uintptr { return uintptr(C.gcgo_idle_function()) }

func writeStopped() { atomic.StoreInt32((*int32)(unsafe.Pointer(&C.gcgo_stopped)), 1) }

//export gcgo_empty
func gcgo_empty(value C.int) C.int { return value }

//export gcgo_malloc
func gcgo_malloc(size C.size_t, device C.int, by C.uint16_t, stream C.uintptr_t, scope C.int64_t, known C.int) (
	addr C.uintptr_t) {
	var err error
	defer gate(&err)
	var given uint64
	given, err = malloc(uint64(size), int(device), holder.ID(by), scopeOf(int64(scope)), gpu.Stream(stream),
		devmgr.Known(known))
	return C.uintptr_t(given)
}

//export gcgo_free
func gcgo_free(addr, stream C.uintptr_t) {
	var err error
	defer gate(&err)
	err = free(uint64(addr), gpu.Stream(stream))
}

// gcgo_idle_bytes returns the bytes that the pools on a device have in no block.
//
//export gcgo_idle_bytes
func gcgo_idle_bytes(device C.int) (bytes C.uint64_t) {
	var err error
	defer gate(&err)
	if m, err := process.Shared().Manager(); err == nil {
		bytes = C.uint64_t(m.IdleBytes(int(device)))
	}
	return bytes
}

// malloc allocates on the logical GPU of the scope if it is on this device, else on the one that the stream belongs to,
// else on the device's first.
func malloc(size uint64, device int, by holder.ID, scope int64, stream gpu.Stream, known devmgr.Known) (uint64, error) {
	m, err := process.Shared().Manager()
	if err != nil {
		return 0, err
	}
	block, err := m.AllocateKnowing(device, int(scope), stream, known, size, by)
	return block.Addr, err
}

// free frees a block. stream is that of the block's last use, or null if that was the stream of the allocation.
func free(addr uint64, stream gpu.Stream) error {
	m, err := process.Shared().Manager()
	if err != nil {
		return err
	}
	if stream != gpu.StreamNull {
		return m.FreeOn(addr, stream)
	}
	return m.Free(addr)
}

//export gcgo_intern_tag
func gcgo_intern_tag(name *C.char) (number C.int) {
	var err error
	defer gate(&err)
	number = -1
	var t holder.Tag
	if t, err = holder.Intern(C.GoString(name)); err == nil {
		number = C.int(t)
	}
	return number
}

//export gcgo_add_stack
func gcgo_add_stack(text *C.char, length C.size_t) (site C.uint32_t) {
	var err error
	defer gate(&err)
	return C.uint32_t(process.Shared().AddStack(C.GoStringN(text, C.int(length))))
}

// gate is deferred first in every function that C calls: it catches panics, and stores the text of an error for
// gpuconf_last_error.
func gate(err *error) {
	process.Caught(recover(), err)
	if *err != nil {
		setError(*err)
	}
}

// setError stores an error's text for C, without the mark.
func setError(err error) {
	text := C.CString(process.Unmark(err))
	defer C.free(unsafe.Pointer(text))
	C.gcgo_set_error(text)
}
