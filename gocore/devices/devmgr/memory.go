// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// LimitBytes is the hard limit of a logical GPU.
func (m *Manager) LimitBytes(number int) (bytes uint64, err error) {
	err = m.onPool(number, func(p *pool) { bytes = p.limitBytes })
	return bytes, err
}

// Frees counts the frees on a logical GPU so far; WaitForFree sleeps until there is one more, or for timeout.
func (m *Manager) Frees(number int) (count uint64, err error) {
	err = m.onPool(number, func(p *pool) { count = p.bfc.Frees() })
	return count, err
}

// WaitForFree blocks until a block of the logical GPU is freed after seen was read from Frees, or until timeout. If the
// Manager is closed meanwhile, it returns FailedPrecondition.
func (m *Manager) WaitForFree(number int, seen uint64, timeout time.Duration) error {
	var p *pool
	if err := m.onPool(number, func(found *pool) { p = found }); err != nil {
		return err
	}
	p.frees.wait(p.bfc.Frees, seen, timeout)
	if m.Closed() {
		return errClosed()
	}
	return nil
}

// onPool calls use with a logical GPU's pool, and mu held for reading.
func (m *Manager) onPool(number int, use func(*pool)) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err == nil {
		use(p)
	}
	return err
}

// poolLocked finds a logical GPU by number.
func (m *Manager) poolLocked(number int) (*pool, error) {
	if err := m.readyLocked(); err != nil {
		return nil, err
	}
	if number < 0 || number >= len(m.gpus) {
		return nil, m.errNoGPULocked(shortName(number))
	}
	return m.gpus[number], nil
}

// ownerLocked finds the pool that an address came from.
func (m *Manager) ownerLocked(addr uint64) (*pool, error) {
	if m.closed {
		return nil, errClosed()
	}
	p := m.owners.find(addr)
	if p == nil {
		return nil, errNotLive(addr)
	}
	return p, nil
}

func errNotLive(addr uint64) error {
	return status.Errorf(status.InvalidArgument, "0x%x is not the address of a live block: it was already freed, or "+
		"gpuconf did not allocate it", addr)
}

// CopyFromHost writes src to device memory inside the live block with the given base and id; CopyToHost reads it back.
// Both fail if the range is not inside that block or the block was freed, even if its memory now belongs to another
// block.
//
// A free does not wait for a copy: the caller must not free a block while copying. If it does, the copy returns an
// error afterwards.
func (m *Manager) CopyFromHost(base, id, offset uint64, src []byte) error {
	return m.copy(base, id, offset, uint64(len(src)), func(d gpu.Driver, ordinal int) error {
		return d.MemcpyHtoD(ordinal, base+offset, src)
	})
}

// CopyToHost reads device memory inside one live block into dst.
func (m *Manager) CopyToHost(base, id, offset uint64, dst []byte) error {
	return m.copy(base, id, offset, uint64(len(dst)), func(d gpu.Driver, ordinal int) error {
		return d.MemcpyDtoH(ordinal, dst, base+offset)
	})
}

func (m *Manager) copy(base, id, offset, bytes uint64, move func(gpu.Driver, int) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.ownerLocked(base)
	if err != nil {
		return err
	}
	requested, live := p.holds(base, id)
	if !live {
		return errNotLive(base)
	}
	if offset > requested || bytes > requested-offset {
		return status.Errorf(status.InvalidArgument, "a copy of %d bytes at offset %d does not fit in the buffer's "+
			"%d bytes", bytes, offset, requested)
	}
	if bytes == 0 {
		return nil
	}
	if err := move(m.driver, p.device.Ordinal); err != nil {
		return driverError(err, "copying %d bytes at offset %d on %s", bytes, offset, shortName(p.number))
	}
	if _, live := p.holds(base, id); !live {
		return status.Errorf(status.InvalidArgument, "the block at 0x%x was freed while %d bytes of it were being "+
			"copied: the copied data and the contents of that memory are undefined", base, bytes)
	}
	return nil
}

// holds returns the requested size of a block, if it still has the given id.
func (p *pool) holds(base, id uint64) (requestedBytes uint64, live bool) {
	block, requestedBytes, live := p.bfc.Find(base)
	return requestedBytes, live && block.ID == id
}

// owners finds the pool that an address belongs to, so that a free needs nothing but the pointer (invariant 2).
//
// Readers load a sorted slice and search it without a lock; a pool that gains or loses a region publishes a new slice.
// Regions change rarely, frees are frequent.
type owners struct {
	mu      sync.Mutex // serializes writers
	regions atomic.Pointer[[]ownedRegion]
}

// fewRegions is the number up to which a linear search is faster than a binary search.
const fewRegions = 8

type ownedRegion struct {
	start, end uint64 // [start, end)
	pool       *pool
}

// find returns the pool whose region contains addr, or nil.
func (o *owners) find(addr uint64) *pool {
	if r := o.region(addr); r != nil {
		return r.pool
	}
	return nil
}

// region returns the region that contains addr, or nil. The result is read-only.
func (o *owners) region(addr uint64) *ownedRegion {
	regions := o.all()
	i := 0
	if len(regions) > fewRegions {
		i = sort.Search(len(regions), func(i int) bool { return regions[i].end > addr })
	} else {
		for i < len(regions) && regions[i].end <= addr {
			i++
		}
	}
	if i == len(regions) || regions[i].start > addr {
		return nil
	}
	return &regions[i]
}

// all returns the regions. The result is read-only.
func (o *owners) all() []ownedRegion {
	if loaded := o.regions.Load(); loaded != nil {
		return *loaded
	}
	return nil
}

func (o *owners) add(start, bytes uint64, p *pool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := append(slices.Clone(o.all()), ownedRegion{start, start + bytes, p})
	sort.Slice(next, func(i, j int) bool { return next[i].start < next[j].start })
	o.regions.Store(&next)
}

func (o *owners) remove(start uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(o.all()), func(r ownedRegion) bool { return r.start == start })
	o.regions.Store(&next)
}
