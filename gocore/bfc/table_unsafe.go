package bfc

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/status"
)

// mapTable gives length zeroed elements outside the Go heap. Memory is committed by the page, when first touched, so a
// table may be far longer than what is used of it, and it never moves. T must hold no Go pointer: the
// collector does not look here.
func mapTable[T any](length int) ([]T, error) {
	var element *T // never followed: a value of a large T would be made on the heap
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(length)*unsafe.Sizeof(*element),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, status.Errorf(status.ResourceExhausted,
			"the host is out of memory for an allocator's table of %d entries: %w", length, err)
	}
	if bytes := uintptr(length) * unsafe.Sizeof(*element); bytes > smallPagesBytes {
		tail := unsafe.Slice((*byte)(unsafe.Add(p, smallPagesBytes)), bytes-smallPagesBytes)
		_ = unix.Madvise(tail, unix.MADV_HUGEPAGE) // a hint: not every kernel has them
	}
	return unsafe.Slice((*T)(p), length), nil
}

// smallPagesBytes is how much of a table comes by the small page. What lies behind is in use only if there are tens of thousands of
// chunks, which are visited in no order: with large pages most of the processor's searches for them fall away.
const smallPagesBytes = 2 << 20

// warm commits elements from one to another, so that they need not come by the page, each when it is touched: a page that is looked for alone takes
// as long as dozens of allocations. It is a hint: older kernels don't take it.
func warm[T any](table []T, from, to int) {
	page := uintptr(unix.Getpagesize())
	begin := uintptr(from) * unsafe.Sizeof(table[0]) / page * page
	end := uintptr(to) * unsafe.Sizeof(table[0])
	p := unsafe.Add(unsafe.Pointer(unsafe.SliceData(table)), begin)
	_ = unix.Madvise(unsafe.Slice((*byte)(p), end-begin), unix.MADV_POPULATE_WRITE)
}

// mapTableUpTo gives length elements; a process under a limit on address space (ulimit -v) or a strict overcommit policy
// gets fewer, at least atLeast: half of what it could map, so that something is left for everything else.
func mapTableUpTo[T any](length, atLeast int) ([]T, error) {
	table, err := mapTable[T](length)
	for err != nil && length > atLeast {
		length = max(length/2, atLeast)
		if table, err = mapTable[T](length); err == nil {
			_ = unmapTable(table) // of a mapping just made: it cannot fail
			return mapTable[T](max(length/2, atLeast))
		}
	}
	return table, err
}

// unmapTable ends the table; nil is no table. No slice of it may be used afterwards.
func unmapTable[T any](table []T) error {
	if table == nil {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(table)), uintptr(len(table))*unsafe.Sizeof(table[0]))
}
