// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"gpuconf/gocore/gpu"
)

// hostMemory is page-locked memory: an arena like a card's, for the whole machine. The machine's lock guards it.
type hostMemory struct {
	arena
	owner map[uint64]int // ordinals by address; nil before the first allocation
}

// hostBytes is the size of a machine's page-locked memory: what fits between two cards.
const hostBytes = stepBytes

// allocate allocates whole pages, so that freed memory never shares a page.
func (h *hostMemory) allocate(ordinal int, bytes uint64) (gpu.HostMemory, error) {
	if bytes == 0 {
		return gpu.HostMemory{}, hostError(gpu.ErrorInvalidValue, "an allocation of 0 bytes")
	}
	if bytes > hostBytes {
		return gpu.HostMemory{}, hostError(gpu.ErrorOutOfMemory, "%d bytes requested, at most %d are possible", bytes, uint64(hostBytes))
	}
	if err := h.open(); err != nil {
		return gpu.HostMemory{}, hostError(gpu.ErrorOutOfMemory, "the host refused %d bytes of address space (%v)", uint64(hostBytes), err)
	}
	addr, found, err := h.arena.allocate(bytes, roundUp(bytes, pageBytes()))
	if err != nil || !found {
		return gpu.HostMemory{}, hostError(gpu.ErrorOutOfMemory, "%d bytes requested (%v)", bytes, err)
	}
	h.owner[addr] = ordinal
	return gpu.HostMemory{Addr: addr, Bytes: bytesAt(addr, bytes), Words: wordsAt(addr, bytes/8)}, nil
}

func (h *hostMemory) open() error {
	if h.owner != nil {
		return nil
	}
	base, err := reserve(hostBytes)
	if err != nil {
		return err
	}
	h.arena = arena{base: base, reserved: hostBytes, end: base}
	h.owner = map[uint64]int{}
	return nil
}

// free frees an allocation of a card's context.
func (h *hostMemory) free(ordinal int, addr uint64) error {
	if owner, live := h.owner[addr]; !live || owner != ordinal {
		return hostError(gpu.ErrorInvalidValue, "%#x is not the address of an allocation of GPU %d", addr, ordinal)
	}
	delete(h.owner, addr)
	h.arena.free(addr)
	return nil
}

// freeAll frees the allocations of a context.
func (h *hostMemory) freeAll(ordinal int) {
	for addr, owner := range h.owner {
		if owner == ordinal {
			delete(h.owner, addr)
			h.arena.free(addr)
		}
	}
}

// check returns an error unless a range is within one allocation.
func (h *hostMemory) check(addr, bytes uint64) error {
	if h.owner == nil || !h.holds(addr, bytes) {
		return hostError(gpu.ErrorInvalidValue, "%d bytes at %#x are not within one allocation", bytes, addr)
	}
	return nil
}

func (h *hostMemory) close() error {
	if h.owner == nil {
		return nil
	}
	base := h.base
	*h = hostMemory{}
	return unmap(base, hostBytes)
}

func hostError(result gpu.Result, format string, args ...any) error {
	return fmt.Errorf("simulated page-locked memory: %s: %w", fmt.Sprintf(format, args...), result)
}

// MemHostAlloc allocates page-locked memory. It stays mapped until the machine closes, even after it is freed.
func (m *Machine) MemHostAlloc(ordinal int, bytes uint64) (gpu.HostMemory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.contextLocked(ordinal); err != nil {
		return gpu.HostMemory{}, err
	}
	return m.host.allocate(ordinal, bytes)
}

// MemFreeHost frees page-locked memory.
func (m *Machine) MemFreeHost(ordinal int, addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.contextLocked(ordinal); err != nil {
		return err
	}
	return m.host.free(ordinal, addr)
}
