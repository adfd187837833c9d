// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cabi

// #include <stddef.h>
// #include <stdint.h>
import "C"

import (
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/pybind/process"
)

// call runs do with the device manager, behind the gate. It returns 1 on success; on failure it stores the error's text
// and returns 0.
func call(do func(*devmgr.Manager) error) (done C.int) {
	var err error
	defer func() {
		if err == nil {
			done = 1
		}
	}()
	defer gate(&err)
	var m *devmgr.Manager
	if m, err = process.Shared().Manager(); err == nil {
		err = do(m)
	}
	return 0
}

//export gcgo_record_stream
func gcgo_record_stream(addr, stream C.uintptr_t) C.int {
	return call(func(m *devmgr.Manager) error { return m.RecordStream(uint64(addr), gpu.Stream(stream)) })
}

//export gcgo_logical_stream
func gcgo_logical_stream(number C.int, stream *C.uintptr_t) C.int {
	return call(func(m *devmgr.Manager) error {
		own, err := m.StreamOf(int(number))
		*stream = C.uintptr_t(own)
		return err
	})
}

//export gcgo_region
func gcgo_region(addr C.uintptr_t, start *C.uintptr_t, size *C.size_t) C.int {
	return call(func(m *devmgr.Manager) error {
		begin, bytes, err := m.Region(uint64(addr))
		*start, *size = C.uintptr_t(begin), C.size_t(bytes)
		return err
	})
}

//export gcgo_trim
func gcgo_trim() C.int {
	return call(func(m *devmgr.Manager) error {
		_, err := m.Trim()
		return err
	})
}

//export gcgo_count_torch
func gcgo_count_torch(size C.size_t) C.int {
	return call(func(m *devmgr.Manager) error { return m.CountForeign(uint64(size)) })
}

//export gcgo_require_fraction
func gcgo_require_fraction(fraction C.double, device C.int) C.int {
	return call(func(m *devmgr.Manager) error { return m.RequireFraction(int(device), float64(fraction)) })
}
