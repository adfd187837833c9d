// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "calls.h"
import "C"

import (
	"fmt"
	"unsafe"

	"gpuconf/gocore/machine/gpu"
)

// MemHostAlloc allocates page-locked memory that all devices can access. On 64-bit Linux, devices and host use the same
// address for it.
func (d *driver) MemHostAlloc(ordinal int, bytes uint64) (gpu.HostMemory, error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return gpu.HostMemory{}, err
	}
	defer d.leave(g)
	if bytes == 0 {
		return gpu.HostMemory{}, fmt.Errorf("cuMemHostAlloc of 0 bytes: %w", gpu.ErrorInvalidValue)
	}
	if bytes >= tooManyBytes {
		return gpu.HostMemory{}, fmt.Errorf("cuMemHostAlloc of %d bytes: %w", bytes, gpu.ErrorOutOfMemory)
	}
	answer := C.cudacall_host_alloc(d.machine, C.uint64_t(g.context), C.uint64_t(bytes))
	if err := d.failure(answer.result, "cuMemHostAlloc of %d bytes", bytes); err != nil {
		return gpu.HostMemory{}, err
	}
	memory := gpu.HostMemory{
		Addr:  uint64(uintptr(answer.memory)),
		Bytes: unsafe.Slice((*byte)(answer.memory), bytes),
		Words: unsafe.Slice((*uint64)(answer.memory), bytes/8),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	g.host.addAllocation(memory.Addr, bytes)
	return memory, nil
}

// MemFreeHost frees memory of MemHostAlloc.
func (d *driver) MemFreeHost(ordinal int, addr uint64) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	d.mu.Lock()
	bytes, ok := g.host.takeAllocation(addr)
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf("%#x is not an allocation of page-locked memory of GPU %d's context: %w", addr, ordinal,
			gpu.ErrorInvalidValue)
	}
	err = d.failure(C.cudacall_host_free(d.machine, C.uint64_t(g.context), C.uint64_t(addr)), "cuMemFreeHost of %#x",
		addr)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		g.host.addAllocation(addr, bytes)
	}
	return err
}

// onHostLocked reports whether a range lies in page-locked memory of one of the contexts.
func (d *driver) onHostLocked(addr, bytes uint64) bool {
	for _, g := range d.devices {
		if g.host.holds(addr, bytes) {
			return true
		}
	}
	return false
}
