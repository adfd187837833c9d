package trace

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/status"
)

// mapTable gives length zeroed elements outside the Go heap. Memory is committed by the page, when first touched. T must
// hold no Go pointer: the collector does not look here.
func mapTable[T any](length int) ([]T, error) {
	var element T
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(length)*unsafe.Sizeof(element),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, status.Errorf(status.ResourceExhausted, "the host is out of memory for a recording of %d events: %w", length, err)
	}
	return unsafe.Slice((*T)(p), length), nil
}

// readyBytes is how much of a table is committed at once. It is filled in front of callers who wait for an allocation, and a page that
// has to be found then costs as much as fifty entries.
const readyBytes = 8 << 20

// warmTable gets a table ready to be filled soon. It is a hint: the kernel may know none of it.
func warmTable[T any](table []T) {
	memory := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(table))), uintptr(len(table))*unsafe.Sizeof(table[0]))
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE)
	_ = unix.Madvise(memory[:min(len(memory), readyBytes)], unix.MADV_POPULATE_WRITE)
}

// unmapTable ends the table. No slice of it may be used afterwards.
func unmapTable[T any](table []T) error {
	if table == nil {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(table)), uintptr(len(table))*unsafe.Sizeof(table[0]))
}
