// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "calls.h"
import "C"

import (
	"fmt"

	"gpuconf/gocore/machine/gpu"
)

// supportsVMM returns an error if the device has no virtual memory management.
func (g *device) supportsVMM() error {
	if g.info.VMM {
		return nil
	}
	return fmt.Errorf("GPU %d (%s) does not support virtual memory management: %w", g.info.Ordinal, g.info.Name,
		gpu.ErrorNotSupported)
}

// MemGetAllocationGranularity queries the granularity of the kind of memory that MemCreate allocates.
func (d *driver) MemGetAllocationGranularity(ordinal int) (minimum, recommended uint64, err error) {
	g, err := d.beginOn(ordinal)
	if err != nil {
		return 0, 0, err
	}
	defer d.finish()
	if err := g.supportsVMM(); err != nil {
		return 0, 0, err
	}
	answer := C.cudacall_granularity(d.machine, g.number)
	err = d.failure(answer.result, "cuMemGetAllocationGranularity of GPU %d", uint64(ordinal))
	return uint64(answer.value), uint64(answer.second), err
}

// MemAddressReserve reserves addresses. CUDA does not document its default alignment; here the default suits every
// device.
func (d *driver) MemAddressReserve(bytes, alignment uint64) (addr uint64, err error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	defer d.finish()
	if alignment&(alignment-1) == 0 {
		alignment = max(alignment, d.granularity)
	}
	answer := C.cudacall_address_reserve(d.machine, C.uint64_t(bytes), C.uint64_t(alignment))
	if err := d.failure(answer.result, "cuMemAddressReserve of %d bytes aligned to %d", bytes, alignment); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reservations[uint64(answer.value)] = bytes
	return uint64(answer.value), nil
}

// MemAddressFree frees a reservation.
func (d *driver) MemAddressFree(addr, bytes uint64) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.finish()
	d.mu.Lock()
	reserved, ok := d.reservations[addr]
	if ok = ok && reserved == bytes; ok {
		delete(d.reservations, addr)
	}
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf("%d bytes at %#x are not a reservation: %w", bytes, addr, gpu.ErrorInvalidValue)
	}
	err := d.failure(C.cudacall_address_free(d.machine, C.uint64_t(addr), C.uint64_t(bytes)),
		"cuMemAddressFree of %d bytes at %#x", bytes, addr)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.reservations[addr] = bytes
	}
	return err
}

// MemCreate allocates physical memory.
func (d *driver) MemCreate(ordinal int, bytes uint64) (gpu.Handle, error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return 0, err
	}
	defer d.leave(g)
	if err := g.supportsVMM(); err != nil {
		return 0, err
	}
	answer := C.cudacall_mem_create(d.machine, C.uint64_t(g.context), g.number, C.uint64_t(bytes))
	if err := d.failure(answer.result, "cuMemCreate of %d bytes on GPU %d", bytes, uint64(ordinal)); err != nil {
		return 0, err
	}
	handle := gpu.Handle(answer.value)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handles[handle] = struct{}{}
	return handle, nil
}

// MemRelease releases a handle.
func (d *driver) MemRelease(handle gpu.Handle) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.finish()
	return surrender(d, d.handles, handle, func() error { return noHandle(handle) }, func() error {
		return d.failure(C.cudacall_mem_release(d.machine, C.uint64_t(handle)), "cuMemRelease of %#x", uint64(handle))
	})
}

func noHandle(handle gpu.Handle) error {
	return fmt.Errorf("unknown memory handle %#x: %w", uint64(handle), gpu.ErrorInvalidValue)
}

// MemMap maps a handle at an address. CUDA checks that the range is reserved and free.
func (d *driver) MemMap(addr, bytes uint64, handle gpu.Handle) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.finish()
	d.mu.Lock()
	_, ok := d.handles[handle]
	d.mu.Unlock()
	if !ok {
		return noHandle(handle)
	}
	result := C.cudacall_mem_map(d.machine, C.uint64_t(addr), C.uint64_t(bytes), C.uint64_t(handle))
	if err := d.failure(result, "cuMemMap of %d bytes at %#x", bytes, addr); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mappings[addr] = bytes
	return nil
}

// withPeers returns a device and those that can access its memory.
func (d *driver) withPeers(g *device) []C.CUdevice {
	g.findPeers.Do(func() {
		g.peers = []C.CUdevice{g.number}
		for _, other := range d.devices {
			if other != g && len(g.peers) < C.CUDACALL_MOST_DEVICES && C.cudacall_can_access(d.machine, other.number,
				g.number) != 0 {
				g.peers = append(g.peers, other.number)
			}
		}
	})
	return g.peers
}

// MemSetAccess gives a device, and every other one that can access its memory, access to mappings. Memory from
// cuMemAlloc is open to these once a library enables peer access, which does nothing for mappings: without a grant
// here, copies between GPUs fail.
func (d *driver) MemSetAccess(ordinal int, addr, bytes uint64) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	if err := g.supportsVMM(); err != nil {
		return err
	}
	d.mu.Lock()
	_, err = d.wholeMappingsLocked(addr, bytes)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	devices := d.withPeers(g)
	grant := func(count int) C.CUresult {
		return C.cudacall_set_access(d.machine, C.uint64_t(g.context), &devices[0], C.int(count), C.uint64_t(addr),
			C.uint64_t(bytes))
	}
	result := grant(len(devices))
	refusal := gpu.Result(result)
	refused := refusal == gpu.ErrorInvalidDevice || refusal == gpu.ErrorNotSupported || refusal == gpu.ErrorInvalidValue
	if refused && len(devices) > 1 { // a driver may refuse a peer, and then grants it to the device itself
		result = grant(1)
	}
	if err := d.failure(result, "cuMemSetAccess of %d bytes at %#x for GPU %d", bytes, addr,
		uint64(ordinal)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	g.reach.addMapped(addr, bytes)
	return nil
}

// MemUnmap removes mappings. They leave the devices' reach before CUDA is called (invariant 5).
func (d *driver) MemUnmap(addr, bytes uint64) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.finish()
	d.mu.Lock()
	mappings, err := d.wholeMappingsLocked(addr, bytes)
	cut := make([][]span, len(d.devices))
	if err == nil {
		for _, mapping := range mappings {
			delete(d.mappings, mapping.begin)
		}
		for i, g := range d.devices {
			cut[i] = g.reach.cutMapped(addr, bytes)
		}
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	err = d.failure(C.cudacall_mem_unmap(d.machine, C.uint64_t(addr), C.uint64_t(bytes)),
		"cuMemUnmap of %d bytes at %#x", bytes, addr)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, mapping := range mappings {
			d.mappings[mapping.begin] = mapping.end - mapping.begin
		}
		for i, g := range d.devices {
			for _, part := range cut[i] {
				g.reach.addMapped(part.begin, part.end-part.begin)
			}
		}
	}
	return err
}

// wholeMappingsLocked returns the mappings that make up a range, each as a span.
func (d *driver) wholeMappingsLocked(addr, bytes uint64) (mappings []span, err error) {
	for at, left := addr, bytes; left > 0; {
		size, ok := d.mappings[at]
		if !ok || size > left {
			mappings = nil
			break
		}
		mappings = append(mappings, span{at, at + size, true})
		at, left = at+size, left-size
	}
	if mappings == nil {
		return nil, fmt.Errorf("%d bytes at %#x are not a range of whole mappings: %w", bytes, addr,
			gpu.ErrorInvalidValue)
	}
	return mappings, nil
}
