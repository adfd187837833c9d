// SPDX-License-Identifier: Apache-2.0

package gpu

// MemoryKind says where a GPU's memory is. The zero value is a GPU's own memory.
type MemoryKind int

// The kinds.
const (
	Dedicated MemoryKind = iota // the GPU's own memory
	// Unified is the host's memory, which the GPU shares with programs on the CPU, as on GB10 and Jetson.
	Unified
	// Coherent is the GPU's own memory, which the CPU can also access, as on GH200. Its size does not include the CPU's
	// memory.
	Coherent
)

// String returns the kind as commands and documents name it.
func (k MemoryKind) String() string {
	return [...]string{Dedicated: "dedicated", Unified: "unified", Coherent: "coherent"}[k]
}

// ManagedAllocator allocates unified memory, which CUDA calls managed memory: it migrates between device and host
// memory as it is used; facts 36 to 39. It works on devices with Device.Managed.
type ManagedAllocator interface {
	// MemAllocManaged allocates managed memory that any stream on any device can access. MemFree frees it.
	MemAllocManaged(ordinal int, bytes uint64) (addr uint64, err error)
}

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

// Handle is physical memory from MemCreate: a CUmemGenericAllocationHandle as a number.
type Handle uint64

// VirtualMemory is virtual memory management: addresses and physical memory are allocated separately. It works on
// devices with Device.VMM; facts 11 to 18.
type VirtualMemory interface {
	// MemGetAllocationGranularity returns the minimum granularity of the device's physical memory and mappings,
	// and the granularity that performs best. It needs no context.
	MemGetAllocationGranularity(ordinal int) (minimum, recommended uint64, err error)

	// MemAddressReserve reserves a range of addresses without memory, aligned to alignment (a power of two, or 0
	// for the default). The range belongs to no device, and the call needs no context. MemAddressFree frees a whole
	// range.
	MemAddressReserve(bytes, alignment uint64) (addr uint64, err error)
	MemAddressFree(addr, bytes uint64) error

	// MemCreate allocates physical memory of a device, without an address. MemRelease releases the handle;
	// the memory is freed once it is no longer mapped.
	MemCreate(ordinal int, bytes uint64) (Handle, error)
	MemRelease(handle Handle) error

	// MemMap maps a whole handle at addr, in a reserved range; bytes is the handle's size. MemUnmap
	// removes one or more adjacent whole mappings. The range stays reserved.
	MemMap(addr, bytes uint64, handle Handle) error
	MemUnmap(addr, bytes uint64) error

	// MemSetAccess gives a device, and every other one that can access its memory (cuDeviceCanAccessPeer), read and
	// write access to a range of whole mappings.
	MemSetAccess(ordinal int, addr, bytes uint64) error
}
