package faults

import "gpuconf/gocore/machine/gpu"

// MemGetAllocationGranularity passes the call on.
func (i *Injector) MemGetAllocationGranularity(ordinal int) (minimum, recommended uint64, err error) {
	if err := i.before("MemGetAllocationGranularity", ordinal, 0); err != nil {
		return 0, 0, err
	}
	return i.upstream.MemGetAllocationGranularity(ordinal)
}

// MemAddressReserve passes the call on.
func (i *Injector) MemAddressReserve(bytes, alignment uint64) (addr uint64, err error) {
	if err := i.before("MemAddressReserve", -1, bytes); err != nil {
		return 0, err
	}
	return i.upstream.MemAddressReserve(bytes, alignment)
}

// MemAddressFree passes the call on.
func (i *Injector) MemAddressFree(addr, bytes uint64) error {
	if err := i.before("MemAddressFree", -1, bytes); err != nil {
		return err
	}
	return i.upstream.MemAddressFree(addr, bytes)
}

// MemCreate passes the call on.
func (i *Injector) MemCreate(ordinal int, bytes uint64) (gpu.Handle, error) {
	if err := i.before("MemCreate", ordinal, bytes); err != nil {
		return 0, err
	}
	handle, err := i.upstream.MemCreate(ordinal, bytes)
	if err == nil {
		i.allocated(bytes)
	}
	return handle, err
}

// MemRelease passes the call on.
func (i *Injector) MemRelease(handle gpu.Handle) error {
	if err := i.before("MemRelease", -1, 0); err != nil {
		return err
	}
	return i.upstream.MemRelease(handle)
}

// MemMap passes the call on.
func (i *Injector) MemMap(addr, bytes uint64, handle gpu.Handle) error {
	if err := i.before("MemMap", -1, bytes); err != nil {
		return err
	}
	return i.upstream.MemMap(addr, bytes, handle)
}

// MemUnmap passes the call on.
func (i *Injector) MemUnmap(addr, bytes uint64) error {
	if err := i.before("MemUnmap", -1, bytes); err != nil {
		return err
	}
	return i.upstream.MemUnmap(addr, bytes)
}

// MemSetAccess passes the call on.
func (i *Injector) MemSetAccess(ordinal int, addr, bytes uint64) error {
	if err := i.before("MemSetAccess", ordinal, bytes); err != nil {
		return err
	}
	return i.upstream.MemSetAccess(ordinal, addr, bytes)
}

// MemHostAlloc passes the call on.
func (i *Injector) MemHostAlloc(ordinal int, bytes uint64) (gpu.HostMemory, error) {
	if err := i.before("MemHostAlloc", ordinal, bytes); err != nil {
		return gpu.HostMemory{}, err
	}
	return i.upstream.MemHostAlloc(ordinal, bytes)
}

// MemFreeHost passes the call on.
func (i *Injector) MemFreeHost(ordinal int, addr uint64) error {
	if err := i.before("MemFreeHost", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.MemFreeHost(ordinal, addr)
}
