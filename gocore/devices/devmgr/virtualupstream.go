// SPDX-License-Identifier: Apache-2.0

package devmgr

import "gpuconf/gocore/machine/gpu"

// virtualUpstream gives a pool access to its GPU's virtual memory management. The range that it reserves belongs to the
// pool as a whole; suballoc.Virtual tracks what is mapped inside it.
type virtualUpstream struct{ upstream }

func (u virtualUpstream) MemGetAllocationGranularity() (uint64, error) {
	minimum, _, err := u.driver.MemGetAllocationGranularity(u.pool.device.Ordinal)
	return minimum, err
}

func (u virtualUpstream) MemAddressReserve(bytes, alignment uint64) (uint64, error) {
	addr, err := u.driver.MemAddressReserve(bytes, alignment)
	if err == nil {
		u.owners.add(addr, bytes, u.pool)
	}
	return addr, err
}

func (u virtualUpstream) MemAddressFree(addr, bytes uint64) error {
	u.owners.remove(addr)
	return u.driver.MemAddressFree(addr, bytes)
}

func (u virtualUpstream) MemCreate(bytes uint64) (uint64, error) {
	handle, err := u.driver.MemCreate(u.pool.device.Ordinal, bytes)
	return uint64(handle), err
}

func (u virtualUpstream) MemRelease(handle uint64) error {
	return u.driver.MemRelease(gpu.Handle(handle))
}

func (u virtualUpstream) MemMap(addr, bytes, handle uint64) error {
	return u.driver.MemMap(addr, bytes, gpu.Handle(handle))
}

func (u virtualUpstream) MemUnmap(addr, bytes uint64) error {
	return u.driver.MemUnmap(addr, bytes)
}

func (u virtualUpstream) MemSetAccess(addr, bytes uint64) error {
	return u.driver.MemSetAccess(u.pool.device.Ordinal, addr, bytes)
}
