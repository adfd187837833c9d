package process

import "unsafe"

// HostBytes sees host memory that Python has locked for the length of a call as a byte slice. The address comes from
// CPython's buffer protocol (python/gpuconf/_core/hostmemory.py) and never outlives the call.
func HostBytes(address, nbytes int64) []byte {
	if nbytes == 0 {
		return nil
	}
	// The address is C memory, which the collector neither moves nor knows; going through a pointer to the
	// number keeps vet's rule for Go memory out of it.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), nbytes)
}
