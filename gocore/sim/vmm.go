// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"

	"gpuconf/gocore/gpu"
)

// MemGetAllocationGranularity returns the granularity of the card's model; the recommended one is the same.
func (m *Machine) MemGetAllocationGranularity(ordinal int) (minimum, recommended uint64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.cardLocked(ordinal)
	if err != nil {
		return 0, 0, err
	}
	if c.granularity == 0 {
		return 0, 0, c.errorf(gpu.ErrorNotSupported, "virtual memory management is not supported")
	}
	return c.granularity, c.granularity, nil
}

// MemAddressReserve reserves the lowest range that fits.
func (m *Machine) MemAddressReserve(bytes, alignment uint64) (addr uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, gpu.ErrorDeinitialized
	}
	return m.space.reserve(bytes, alignment)
}

// MemAddressFree frees a reservation. It refuses one with mappings, because CUDA does not document what happens then.
func (m *Machine) MemAddressFree(addr, bytes uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return gpu.ErrorDeinitialized
	}
	return m.space.free(addr, bytes)
}

// MemCreate allocates physical memory of a card.
func (m *Machine) MemCreate(ordinal int, bytes uint64) (gpu.Handle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return 0, err
	}
	p, err := c.createPart(bytes)
	if err != nil {
		return 0, err
	}
	m.lastHandle++
	m.handles[m.lastHandle] = p
	return m.lastHandle, nil
}

// MemRelease releases a handle. Its number is never reused, so use after release is detected.
func (m *Machine) MemRelease(handle gpu.Handle) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.partLocked(handle)
	if err != nil {
		return err
	}
	delete(m.handles, handle)
	p.held = false
	p.drop()
	return nil
}

// MemMap maps a handle at an address.
func (m *Machine) MemMap(addr, bytes uint64, handle gpu.Handle) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.partLocked(handle)
	if err != nil {
		return err
	}
	if err := p.card.checkGranularity(addr, bytes); err != nil {
		return err
	}
	if bytes != p.bytes {
		return p.card.errorf(gpu.ErrorInvalidValue, "cannot map %d bytes of a handle of %d bytes: a handle is mapped whole", bytes, p.bytes)
	}
	r, err := m.space.around(addr, bytes)
	if err != nil {
		return err
	}
	return r.mapPart(mapping{span: span{addr, bytes}, part: p})
}

// mapPart makes a mapping. The host may refuse, for example at its limit of mappings.
func (r *reservation) mapPart(m mapping) error {
	at, err := r.hole(m.base, m.bytes)
	if err != nil {
		return err
	}
	if err := mapFile(m.base, m.bytes, m.part.card.physical.file, m.part.offset); err != nil {
		return m.part.card.errorf(gpu.ErrorOutOfMemory,
			"the host refused to map %d bytes (%v); check its limit of mappings, vm.max_map_count", m.bytes, err)
	}
	m.part.mappings++
	r.mappings = slices.Insert(r.mappings, at, m)
	r.check(at, at+1)
	return nil
}

// MemUnmap removes whole mappings. The addresses stay readable and writable for the host, but are no longer the handle's memory.
func (m *Machine) MemUnmap(addr, bytes uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, from, to, err := m.mappingsLocked(addr, bytes)
	if err != nil {
		return err
	}
	// If the host refuses, stale views still see the old pages. The accounting and later mappings at this address are unaffected.
	_ = mapBlank(addr, bytes)
	r.remove(from, to)
	r.check(from, from)
	return nil
}

// remove removes mappings from the accounting.
func (r *reservation) remove(from, to int) {
	for _, m := range r.mappings[from:to] {
		m.part.mappings--
		m.part.drop()
	}
	r.mappings = slices.Delete(r.mappings, from, to)
}

// MemSetAccess gives a card access to mappings of its own memory. Simulated GPUs cannot access each other's.
func (m *Machine) MemSetAccess(ordinal int, addr, bytes uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return err
	}
	if err := c.checkGranularity(addr, bytes); err != nil {
		return err
	}
	r, from, to, err := m.mappingsLocked(addr, bytes)
	if err != nil {
		return err
	}
	for _, mapped := range r.mappings[from:to] {
		if mapped.part.card != c {
			return c.errorf(gpu.ErrorInvalidDevice, "the memory at %#x belongs to another GPU", mapped.base)
		}
	}
	for i := from; i < to; i++ {
		r.mappings[i].accessible = true
	}
	return nil
}

// mappingsLocked returns the mappings that cover exactly a range. m.mu is held.
func (m *Machine) mappingsLocked(addr, bytes uint64) (r *reservation, from, to int, err error) {
	if m.closed {
		return nil, 0, 0, gpu.ErrorDeinitialized
	}
	if r, err = m.space.around(addr, bytes); err != nil {
		return nil, 0, 0, err
	}
	from, to, err = r.whole(addr, bytes)
	return r, from, to, err
}

// partLocked returns the memory of a handle. m.mu is held.
func (m *Machine) partLocked(handle gpu.Handle) (*part, error) {
	if m.closed {
		return nil, gpu.ErrorDeinitialized
	}
	p := m.handles[handle]
	if p == nil {
		return nil, fmt.Errorf("unknown simulated memory handle %d: %w", handle, gpu.ErrorInvalidValue)
	}
	return p, nil
}

// closeVMM releases all resources of virtual memory management. m.mu is held.
func (m *Machine) closeVMM() (first error) {
	first = m.space.close()
	m.handles = nil
	for _, c := range m.cards {
		if err := c.physical.close(); err != nil && first == nil {
			first = fmt.Errorf("simulated GPU %d: physical memory: %w (%w)", c.description.Ordinal, err, gpu.ErrorUnknown)
		}
	}
	return first
}
