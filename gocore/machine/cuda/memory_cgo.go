// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "calls.h"
import "C"

import (
	"fmt"
	"math"
	"slices"
	"sort"
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
	return d.surrenderSpan(&g.reach, addr, "%#x is not a live allocation of GPU %d", ordinal, func() error {
		return d.failure(C.cudacall_mem_free(d.machine, C.uint64_t(g.context), C.uint64_t(addr)),
			"cuMemFree of %#x on GPU %d", addr, uint64(ordinal))
	})
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

// move makes a call of touch, which has returned g and err, unless its range is empty.
func (d *driver) move(g *device, err error, call func(context, bytes C.uint64_t) C.CUresult, what string, bytes uint64,
	numbers ...uint64) error {
	if err != nil {
		return err
	}
	defer d.leave(g)
	if bytes == 0 {
		return nil
	}
	result := call(C.uint64_t(g.context), C.uint64_t(bytes))
	if result == 0 {
		return nil
	}
	return d.failure(result, what, append(append([]uint64{bytes}, numbers...), uint64(g.info.Ordinal))...)
}

// MemcpyHtoD writes src to device memory.
func (d *driver) MemcpyHtoD(ordinal int, dst uint64, src []byte) error {
	g, err := d.touch(ordinal, uint64(len(src)), dst)
	return d.move(g, err, func(context, bytes C.uint64_t) C.CUresult {
		return C.cudacall_copy_to(d.machine, context, C.uint64_t(dst), unsafe.Pointer(&src[0]), bytes)
	}, "cuMemcpyHtoD of %d bytes to %#x on GPU %d", uint64(len(src)), dst)
}

// MemcpyDtoH reads device memory into dst.
func (d *driver) MemcpyDtoH(ordinal int, dst []byte, src uint64) error {
	g, err := d.touch(ordinal, uint64(len(dst)), src)
	return d.move(g, err, func(context, bytes C.uint64_t) C.CUresult {
		return C.cudacall_copy_from(d.machine, context, unsafe.Pointer(&dst[0]), C.uint64_t(src), bytes)
	}, "cuMemcpyDtoH of %d bytes from %#x on GPU %d", uint64(len(dst)), src)
}

// MemsetD8 fills device memory.
func (d *driver) MemsetD8(ordinal int, dst uint64, value byte, bytes uint64) error {
	g, err := d.touch(ordinal, bytes, dst)
	return d.move(g, err, func(context, bytes C.uint64_t) C.CUresult {
		return C.cudacall_fill(d.machine, context, C.uint64_t(dst), C.uint8_t(value), bytes)
	}, "cuMemsetD8 of %d bytes at %#x on GPU %d", bytes, dst)
}

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
	return d.surrenderSpan(&g.host, addr, "%#x is not an allocation of page-locked memory of GPU %d's context", ordinal,
		func() error {
			return d.failure(C.cudacall_host_free(d.machine, C.uint64_t(g.context), C.uint64_t(addr)),
				"cuMemFreeHost of %#x", addr)
		})
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

// MemcpyDtoHAsync queues a copy to the host. CUDA accepts any host memory, but copies to pageable memory either
// synchronously or, worse, later.
func (d *driver) MemcpyDtoHAsync(ordinal int, hostDst, src, bytes uint64, stream gpu.Stream) error {
	g, err := d.touch(ordinal, bytes, src)
	d.mu.Lock()
	locked := bytes == 0 || d.onHostLocked(hostDst, bytes)
	d.mu.Unlock()
	if err == nil && !locked {
		d.leave(g)
		err = fmt.Errorf("%d bytes at %#x are not in page-locked memory from MemHostAlloc: %w", bytes, hostDst,
			gpu.ErrorInvalidValue)
	}
	return d.move(g, err, func(context, bytes C.uint64_t) C.CUresult {
		return C.cudacall_copy_from_async(d.machine, context, C.uint64_t(hostDst), C.uint64_t(src), bytes,
			C.uint64_t(stream))
	}, "cuMemcpyDtoHAsync of %d bytes from %#x on GPU %d", bytes, src)
}

// MemcpyDtoDAsync queues a copy within the device.
func (d *driver) MemcpyDtoDAsync(ordinal int, dst, src, bytes uint64, stream gpu.Stream) error {
	g, err := d.touch(ordinal, bytes, dst, src)
	return d.move(g, err, func(context, bytes C.uint64_t) C.CUresult {
		return C.cudacall_copy_within_async(d.machine, context, C.uint64_t(dst), C.uint64_t(src), bytes,
			C.uint64_t(stream))
	}, "cuMemcpyDtoDAsync of %d bytes from %#x to %#x on GPU %d", bytes, src, dst)
}

// MemsetD8Async queues a fill.
func (d *driver) MemsetD8Async(ordinal int, dst uint64, value byte, bytes uint64, stream gpu.Stream) error {
	g, err := d.touch(ordinal, bytes, dst)
	return d.move(g, err, func(context, bytes C.uint64_t) C.CUresult {
		return C.cudacall_fill_async(d.machine, context, C.uint64_t(dst), C.uint8_t(value), bytes, C.uint64_t(stream))
	}, "cuMemsetD8Async of %d bytes at %#x on GPU %d", bytes, dst)
}

// span is a range of addresses, [begin, end).
type span struct {
	begin, end uint64
	mapped     bool // consists of mappings, and can grow, shrink and split; else it is one allocation
}

// spans are disjoint and sorted by address. Adjacent mapped spans are merged.
type spans []span

// after returns the index of the first span that ends after addr.
func (s spans) after(addr uint64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].end > addr })
}

// holds reports whether the range lies within one span; false for an empty range.
func (s spans) holds(addr, bytes uint64) bool {
	i := s.after(addr)
	return bytes > 0 && i < len(s) && s[i].begin <= addr && bytes <= s[i].end-addr
}

// addAllocation adds an allocation.
func (s *spans) addAllocation(addr, bytes uint64) {
	*s = slices.Insert(*s, s.after(addr), span{begin: addr, end: addr + bytes})
}

// takeAllocation removes the allocation that begins at addr.
func (s *spans) takeAllocation(addr uint64) (bytes uint64, ok bool) {
	i := s.after(addr)
	if i == len(*s) || (*s)[i].begin != addr || (*s)[i].mapped {
		return 0, false
	}
	bytes = (*s)[i].end - addr
	*s = slices.Delete(*s, i, i+1)
	return bytes, true
}

// addMapped adds a range of mappings, parts of which may already be present. It joins adjacent ones (invariant 7).
func (s *spans) addMapped(addr, bytes uint64) {
	added := span{addr, addr + bytes, true}
	from := s.after(addr)
	if from > 0 && (*s)[from-1].mapped && (*s)[from-1].end == addr {
		from--
	}
	to := from
	for ; to < len(*s) && (*s)[to].mapped && (*s)[to].begin <= added.end; to++ {
		added.begin = min(added.begin, (*s)[to].begin)
		added.end = max(added.end, (*s)[to].end)
	}
	*s = slices.Replace(*s, from, to, added)
}

// cutMapped removes a range of mappings and returns the parts that were present.
func (s *spans) cutMapped(addr, bytes uint64) (cut []span) {
	end := addr + min(bytes, math.MaxUint64-addr)
	from := s.after(addr)
	to := from
	var rest []span
	for ; to < len(*s) && (*s)[to].mapped && (*s)[to].begin < end; to++ {
		old := (*s)[to]
		if old.begin < addr {
			rest = append(rest, span{old.begin, addr, true})
		}
		if old.end > end {
			rest = append(rest, span{end, old.end, true})
		}
		cut = append(cut, span{max(old.begin, addr), min(old.end, end), true})
	}
	*s = slices.Replace(*s, from, to, rest...)
	return cut
}

// onlyMapped returns a copy without the allocations.
func (s spans) onlyMapped() spans {
	return slices.DeleteFunc(slices.Clone(s), func(held span) bool { return !held.mapped })
}
