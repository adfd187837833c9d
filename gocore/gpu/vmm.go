package gpu

// Handle is physical memory that MemCreate made: a CUmemGenericAllocationHandle by number.
type Handle uint64

// VirtualMemory is virtual memory management: addresses and physical memory taken apart. It works on devices with
// Device.VMM; facts 11 to 18.
type VirtualMemory interface {
	// MemGetAllocationGranularity tells the least multiple that the device's physical memory and its mappings come in,
	// and the multiple that performs best. It needs no context.
	MemGetAllocationGranularity(ordinal int) (minimum, recommended uint64, err error)

	// MemAddressReserve takes a range of addresses with nothing behind it, aligned to alignment (a power of two, or 0
	// for the default). It belongs to no device and needs no context. MemAddressFree gives a whole range back.
	MemAddressReserve(bytes, alignment uint64) (addr uint64, err error)
	MemAddressFree(addr, bytes uint64) error

	// MemCreate takes physical memory of a device, without an address. MemRelease gives the handle back;
	// the memory stays while it is mapped.
	MemCreate(ordinal int, bytes uint64) (Handle, error)
	MemRelease(handle Handle) error

	// MemMap puts the whole of a handle at addr, in a reserved range; bytes is the handle's size. MemUnmap
	// takes whole mappings away, one or several that are adjacent. The range stays reserved.
	MemMap(addr, bytes uint64, handle Handle) error
	MemUnmap(addr, bytes uint64) error

	// MemSetAccess lets a device read and write a range of whole mappings.
	MemSetAccess(ordinal int, addr, bytes uint64) error
}
