// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "calls.h"
import "C"

import (
	"fmt"

	"gpuconf/gocore/machine/gpu"
)

// exchange starts an asynchronous copy between a device's memory and page-locked memory, like enter. CUDA accepts any
// host memory, but copies from pageable memory either synchronously or, worse, later.
func (d *driver) exchange(ordinal int, addr, host, bytes uint64) (*device, error) {
	g, err := d.touch(ordinal, bytes, addr)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	locked := bytes == 0 || d.onHostLocked(host, bytes)
	d.mu.Unlock()
	if !locked {
		d.leave(g)
		return nil, fmt.Errorf("%d bytes at %#x are not in page-locked memory from MemHostAlloc: %w", bytes, host,
			gpu.ErrorInvalidValue)
	}
	return g, nil
}

// MemcpyHtoDAsync queues a copy to the device.
func (d *driver) MemcpyHtoDAsync(ordinal int, dst, hostSrc, bytes uint64, stream gpu.Stream) error {
	g, err := d.exchange(ordinal, dst, hostSrc, bytes)
	if err != nil {
		return err
	}
	defer d.leave(g)
	if bytes == 0 {
		return nil
	}
	result := C.cudacall_copy_to_async(d.machine, C.uint64_t(g.context), C.uint64_t(dst), C.uint64_t(hostSrc),
		C.uint64_t(bytes), C.uint64_t(stream))
	return d.failure(result, "cuMemcpyHtoDAsync of %d bytes to %#x on GPU %d", bytes, dst, uint64(ordinal))
}

// MemcpyDtoHAsync queues a copy to the host.
func (d *driver) MemcpyDtoHAsync(ordinal int, hostDst, src, bytes uint64, stream gpu.Stream) error {
	g, err := d.exchange(ordinal, src, hostDst, bytes)
	if err != nil {
		return err
	}
	defer d.leave(g)
	if bytes == 0 {
		return nil
	}
	result := C.cudacall_copy_from_async(d.machine, C.uint64_t(g.context), C.uint64_t(hostDst), C.uint64_t(src),
		C.uint64_t(bytes), C.uint64_t(stream))
	return d.failure(result, "cuMemcpyDtoHAsync of %d bytes from %#x on GPU %d", bytes, src, uint64(ordinal))
}

// MemcpyDtoDAsync queues a copy within the device.
func (d *driver) MemcpyDtoDAsync(ordinal int, dst, src, bytes uint64, stream gpu.Stream) error {
	g, err := d.touch(ordinal, bytes, dst, src)
	if err != nil {
		return err
	}
	defer d.leave(g)
	if bytes == 0 {
		return nil
	}
	result := C.cudacall_copy_within_async(d.machine, C.uint64_t(g.context), C.uint64_t(dst), C.uint64_t(src),
		C.uint64_t(bytes), C.uint64_t(stream))
	return d.failure(result, "cuMemcpyDtoDAsync of %d bytes from %#x to %#x on GPU %d", bytes, src, dst,
		uint64(ordinal))
}

// MemsetD8Async queues a fill.
func (d *driver) MemsetD8Async(ordinal int, dst uint64, value byte, bytes uint64, stream gpu.Stream) error {
	g, err := d.touch(ordinal, bytes, dst)
	if err != nil {
		return err
	}
	defer d.leave(g)
	if bytes == 0 {
		return nil
	}
	result := C.cudacall_fill_async(d.machine, C.uint64_t(g.context), C.uint64_t(dst), C.uint8_t(value),
		C.uint64_t(bytes), C.uint64_t(stream))
	return d.failure(result, "cuMemsetD8Async of %d bytes at %#x on GPU %d", bytes, dst, uint64(ordinal))
}
