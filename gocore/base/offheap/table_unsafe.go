// SPDX-License-Identifier: Apache-2.0

// Package offheap maps tables outside the Go heap.
//
// The garbage collector neither scans nor moves them, and the kernel commits a page when it is first touched. A table
// may therefore be far longer than the part of it that is in use, and a pointer into it stays valid until Unmap. The
// element type must not contain Go pointers, because the collector does not see them.
package offheap

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// Map returns a table of length zeroed elements. what names the table in the error for a host that is out of memory,
// such as "an allocator's table".
func Map[T any](what string, length int) ([]T, error) {
	var element *T // never dereferenced: a value of a large T would be allocated on the heap
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(length)*unsafe.Sizeof(*element),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, status.Errorf(status.ResourceExhausted, "the host is out of memory for %s of %d entries: %w", what,
			length, err)
	}
	table := unsafe.Slice((*T)(p), length)
	if memory := bytesOf(table); len(memory) > smallPagesBytes {
		_ = unix.Madvise(memory[smallPagesBytes:], unix.MADV_HUGEPAGE) // a hint: not every kernel has them
	}
	return table, nil
}

// smallPagesBytes is how much of a table is committed in small pages. The part behind it is in use only where there are
// tens of thousands of entries. Those are visited in no order, and with huge pages most of the processor's page walks
// go away.
const smallPagesBytes = 2 << 20

// MapUpTo is Map for a table that may be shorter. Under a limit on address space (ulimit -v) or a strict overcommit
// policy it returns at least atLeast elements: half of what could be mapped, so that address space is left for
// everything else.
func MapUpTo[T any](what string, length, atLeast int) ([]T, error) {
	table, err := Map[T](what, length)
	for err != nil && length > atLeast {
		length = max(length/2, atLeast)
		if table, err = Map[T](what, length); err == nil {
			_ = Unmap(table) // a mapping that was just made: this cannot fail
			return Map[T](what, max(length/2, atLeast))
		}
	}
	return table, err
}

// Warm commits the elements from one index up to another, so that they are not committed page by page as they are
// touched: a page fault costs as much as dozens of allocations. It is a hint, which older kernels ignore.
func Warm[T any](table []T, from, to int) {
	page := uintptr(unix.Getpagesize())
	begin := uintptr(from) * unsafe.Sizeof(table[0]) / page * page
	_ = unix.Madvise(bytesOf(table)[begin:uintptr(to)*unsafe.Sizeof(table[0])], unix.MADV_POPULATE_WRITE)
}

// Unmap ends the table; nil is no table. No slice of it may be used afterwards.
func Unmap[T any](table []T) error {
	if table == nil {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(table)), uintptr(len(bytesOf(table))))
}

func bytesOf[T any](table []T) []byte {
	var element *T // as in Map
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(table))), uintptr(len(table))*unsafe.Sizeof(*element))
}
