// SPDX-License-Identifier: Apache-2.0

package gpu

// HostMemory is page-locked host memory that devices can access. Bytes and Words are the same memory, valid until
// MemFreeHost. Use sync/atomic to read a word that a stream writes.
type HostMemory struct {
	Addr  uint64   // the address for devices and the driver
	Bytes []byte   // the memory, for the host
	Words []uint64 // the whole words of Bytes
}

// HostAllocator allocates page-locked host memory; fact 28.
type HostAllocator interface {
	// MemHostAlloc allocates memory that every device can access. It belongs to the context of the given device.
	// MemFreeHost frees it.
	MemHostAlloc(ordinal int, bytes uint64) (HostMemory, error)
	MemFreeHost(ordinal int, addr uint64) error
}
