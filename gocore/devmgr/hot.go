package devmgr

import (
	"errors"

	"gpuconf/gocore/bfc"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

// The way of an allocation and of a free that succeed: without mu, which would cost as much as the allocator's own lock.
//
// hot is the list of pools as of the last change. A pool that is closed meanwhile refuses by itself, and one whose Manager is
// about to be closed is sealed; both send the caller to the slow way, which takes mu and sees what is true by then.

// AllocateOn allocates where Route says, for work of a CUDA stream. Memory that another stream has freed is handed over
// only once its work is done, or with a wait queued in this stream.
func (m *Manager) AllocateOn(ordinal, scope int, stream gpu.Stream, bytes uint64) (bfc.Block, error) {
	if pools := m.hot.Load(); pools != nil {
		if p := m.routed(*pools, ordinal, scope, stream); p != nil {
			block, err := p.allocate(stream, bytes)
			if err == nil {
				return block, nil
			}
			if !isShut(err) {
				return m.explain(p, bytes, err)
			}
		}
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.routeLocked(ordinal, scope, stream)
	if err != nil {
		return bfc.Block{}, err
	}
	return m.allocateLocked(p, stream, bytes)
}

// Allocate takes bytes of memory on logical GPU number, for the default stream. Size 0 gives a zero block. Out of memory is
// ResourceExhausted with the whole story as its text.
func (m *Manager) Allocate(number int, bytes uint64) (bfc.Block, error) {
	if pools := m.hot.Load(); pools != nil && number >= 0 && number < len(*pools) {
		p := (*pools)[number]
		block, err := p.allocate(gpu.StreamNull, bytes)
		if err == nil {
			return block, nil
		}
		if !isShut(err) {
			return m.explain(p, bytes, err)
		}
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return bfc.Block{}, err
	}
	return m.allocateLocked(p, gpu.StreamNull, bytes)
}

func (m *Manager) allocateLocked(p *pool, stream gpu.Stream, bytes uint64) (bfc.Block, error) {
	block, err := p.allocate(stream, bytes)
	if err != nil {
		return bfc.Block{}, m.outOfMemoryLocked(p, bytes, err)
	}
	return block, nil
}

// explain tells a failed allocation to the person who ran into it.
func (m *Manager) explain(p *pool, bytes uint64, err error) (bfc.Block, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return bfc.Block{}, m.outOfMemoryLocked(p, bytes, err)
}

func (p *pool) allocate(stream gpu.Stream, bytes uint64) (bfc.Block, error) {
	owner, err := p.ownerOf(stream, bytes)
	if err != nil {
		return bfc.Block{}, err
	}
	block, err := p.bfc.AllocateOn(owner, bytes)
	if err != nil && p.captures.reclaim(p.bfc) {
		block, err = p.bfc.AllocateOn(owner, bytes)
	}
	return block, err
}

// ownerOf gives the number by which the allocator is to know who allocates so much for a stream.
func (p *pool) ownerOf(stream gpu.Stream, bytes uint64) (bfc.Stream, error) {
	number, err := p.numbers.of(stream, p.bfc)
	if err != nil || bytes == 0 {
		return number, err
	}
	p.captures.reclaimSometimes(p.bfc)
	return p.captures.owner(stream, number, p.bfc)
}

// Free gives a block back by its address alone, whichever logical GPU it is on. Freeing the zero block does nothing.
func (m *Manager) Free(addr uint64) error {
	p := m.owners.find(addr)
	if p == nil {
		return m.errForeign(addr)
	}
	if err := p.bfc.Free(addr); err != nil {
		return freeError(err)
	}
	p.frees.freed()
	return nil
}

// FreeID gives a block back if it is still the one that was handed out with this id.
func (m *Manager) FreeID(addr, id uint64) error {
	p := m.owners.find(addr)
	if p == nil {
		err := m.errForeign(addr)
		if err == nil && id != 0 {
			err = errNotLive(addr)
		}
		return err
	}
	if err := p.bfc.FreeID(addr, id); err != nil {
		return freeError(err)
	}
	p.frees.freed()
	return nil
}

// errForeign is the answer to the free of what no pool owns: none for the zero block.
func (m *Manager) errForeign(addr uint64) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case m.closed:
		return errClosed()
	case addr == 0:
		return nil
	default:
		return errNotLive(addr)
	}
}

// freeError is what a pool says, but that it is closed: then so is the Manager, or soon.
func freeError(err error) error {
	if isShut(err) {
		return errClosed()
	}
	return err
}

// isShut reports whether a pool refused because it is, or is about to be, closed.
func isShut(err error) bool {
	return errors.Is(err, bfc.ErrSealed) || status.CodeOf(err) == status.FailedPrecondition
}
