// SPDX-License-Identifier: Apache-2.0

package gpu

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
