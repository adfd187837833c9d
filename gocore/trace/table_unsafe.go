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

// unmapTable ends the table. No slice of it may be used afterwards.
func unmapTable[T any](table []T) error {
	if table == nil {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(table)), uintptr(len(table))*unsafe.Sizeof(table[0]))
}
