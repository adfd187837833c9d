// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "calls.h"
import "C"

import (
	"fmt"
	"unsafe"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/meminfo"
)

// tooManyBytes is more than any GPU can address. Drivers return different errors for such requests; here they are out
// of memory.
const tooManyBytes = 1 << 57

// MemGetInfo returns the bytes that are free, counting all processes, and the total.
func (d *driver) MemGetInfo(ordinal int) (freeBytes, totalBytes uint64, err error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return 0, 0, err
	}
	defer d.leave(g)
	answer := C.cudacall_mem_info(d.machine, C.uint64_t(g.context))
	freeBytes, totalBytes = uint64(answer.value), uint64(answer.second)
	if freeBytes > totalBytes {
		// More is in use than there is, as may happen under WSL2: the driver's subtraction has wrapped around.
		freeBytes = 0
	}
	if g.info.MemoryKind == gpu.Unified && d.machine == nil {
		freeBytes = max(freeBytes, min(reclaimable(), totalBytes))
	}
	return freeBytes, totalBytes, d.failure(answer.result, "cuMemGetInfo of GPU %d", uint64(ordinal))
}

// reclaimable returns the memory that the host can still provide, which CUDA counts only as far as it is unused. 0 if
// unknown.
func reclaimable() uint64 {
	host, err := meminfo.Read()
	if err != nil {
		return 0
	}
	return host.AvailableBytes
}

// MemAlloc allocates memory.
func (d *driver) MemAlloc(ordinal int, bytes uint64) (addr uint64, err error) {
	return d.allocate(ordinal, bytes, "cuMemAlloc of %d bytes on GPU %d", func(g *device) C.struct_cuda_answer {
		return C.cudacall_mem_alloc(d.machine, C.uint64_t(g.context), C.uint64_t(bytes))
	})
}

// MemAllocManaged allocates managed memory. As in TensorFlow, it gives no memory advice: CUDA decides where pages
// reside.
func (d *driver) MemAllocManaged(ordinal int, bytes uint64) (addr uint64, err error) {
	return d.allocate(ordinal, bytes, "cuMemAllocManaged of %d bytes on GPU %d", func(g *device) C.struct_cuda_answer {
		return C.cudacall_mem_alloc_managed(d.machine, C.uint64_t(g.context), C.uint64_t(bytes))
	})
}

func (d *driver) allocate(ordinal int, bytes uint64, what string, take func(*device) C.struct_cuda_answer) (
	addr uint64, err error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return 0, err
	}
	defer d.leave(g)
	if bytes >= tooManyBytes {
		return 0, fmt.Errorf(what+": %w", bytes, ordinal, gpu.ErrorOutOfMemory)
	}
	answer := take(g)
	if err := d.failure(answer.result, what, bytes, uint64(ordinal)); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	g.reach.addAllocation(uint64(answer.value), bytes)
	return uint64(answer.value), nil
}

// MemFree frees memory (invariant 5).
func (d *driver) MemFree(ordinal int, addr uint64) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	d.mu.Lock()
	bytes, ok := g.reach.takeAllocation(addr)
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf("%#x is not a live allocation of GPU %d: %w", addr, ordinal, gpu.ErrorInvalidValue)
	}
	err = d.failure(C.cudacall_mem_free(d.machine, C.uint64_t(g.context), C.uint64_t(addr)),
		"cuMemFree of %#x on GPU %d", addr, uint64(ordinal))
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		g.reach.addAllocation(addr, bytes)
	}
	return err
}

// touch starts a call that accesses ranges of a device's memory, like enter (invariant 4). An empty range may be
// anywhere.
func (d *driver) touch(ordinal int, bytes uint64, addrs ...uint64) (*device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.contextLocked(ordinal)
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		if bytes > 0 && !g.reach.holds(addr, bytes) {
			return nil, notReachable(g, addr, bytes)
		}
	}
	g.inside++
	return g, nil
}

// MemcpyHtoD writes src to device memory.
func (d *driver) MemcpyHtoD(ordinal int, dst uint64, src []byte) error {
	g, err := d.touch(ordinal, uint64(len(src)), dst)
	if err != nil {
		return err
	}
	defer d.leave(g)
	if len(src) == 0 {
		return nil
	}
	result := C.cudacall_copy_to(d.machine, C.uint64_t(g.context), C.uint64_t(dst), unsafe.Pointer(&src[0]),
		C.uint64_t(len(src)))
	return d.failure(result, "cuMemcpyHtoD of %d bytes to %#x on GPU %d", uint64(len(src)), dst, uint64(ordinal))
}

// MemcpyDtoH reads device memory into dst.
func (d *driver) MemcpyDtoH(ordinal int, dst []byte, src uint64) error {
	g, err := d.touch(ordinal, uint64(len(dst)), src)
	if err != nil {
		return err
	}
	defer d.leave(g)
	if len(dst) == 0 {
		return nil
	}
	result := C.cudacall_copy_from(d.machine, C.uint64_t(g.context), unsafe.Pointer(&dst[0]), C.uint64_t(src),
		C.uint64_t(len(dst)))
	return d.failure(result, "cuMemcpyDtoH of %d bytes from %#x on GPU %d", uint64(len(dst)), src, uint64(ordinal))
}

// MemcpyDtoD copies within a device.
func (d *driver) MemcpyDtoD(ordinal int, dst, src, bytes uint64) error {
	g, err := d.touch(ordinal, bytes, dst, src)
	if err != nil {
		return err
	}
	defer d.leave(g)
	if bytes == 0 {
		return nil
	}
	result := C.cudacall_copy_within(d.machine, C.uint64_t(g.context), C.uint64_t(dst), C.uint64_t(src),
		C.uint64_t(bytes))
	return d.failure(result, "cuMemcpyDtoD of %d bytes from %#x to %#x on GPU %d", bytes, src, dst, uint64(ordinal))
}

// MemsetD8 fills device memory.
func (d *driver) MemsetD8(ordinal int, dst uint64, value byte, bytes uint64) error {
	g, err := d.touch(ordinal, bytes, dst)
	if err != nil {
		return err
	}
	defer d.leave(g)
	if bytes == 0 {
		return nil
	}
	result := C.cudacall_fill(d.machine, C.uint64_t(g.context), C.uint64_t(dst), C.uint8_t(value), C.uint64_t(bytes))
	return d.failure(result, "cuMemsetD8 of %d bytes at %#x on GPU %d", bytes, dst, uint64(ordinal))
}
