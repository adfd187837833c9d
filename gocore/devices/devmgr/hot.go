// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
)

// The fast path of Allocate and Free does not take mu, which would cost as much as the allocator's own lock.
//
// hot is the list of pools as of the last change. A pool that was closed since then returns an error, and so does a
// sealed pool, whose Manager is about to be closed. In both cases the caller falls back to the slow path, which takes
// mu.

// Known is what the caller of AllocateKnowing knows of the stream, so that the driver need not be asked.
type Known uint8

// The bits of Known.
const (
	Uncaptured Known = 1 << iota // the caller has just asked the driver: the stream is not being captured
	Lasting                      // the stream is never destroyed, so its handle denotes no other one
)

// AllocateKnowing allocates on a logical GPU of a CUDA ordinal, for work of a CUDA stream: the scope's, a number, if it
// is on that ordinal; else the one that the stream belongs to; else the ordinal's first. Memory that another stream
// freed is reused only after that stream's work is done, or with a wait queued in this stream. The block counts for the
// holder.
func (m *Manager) AllocateKnowing(ordinal, scope int, stream gpu.Stream, known Known, bytes uint64, by holder.ID) (
	bfc.Block, error) {
	if pools := m.hot.Load(); pools != nil {
		if p := m.routed(*pools, ordinal, scope, stream); p != nil {
			if m.streams.find(stream, ordinal) == p {
				known |= Lasting // until Close
			}
			block, err := p.allocate(stream, known, bytes, by)
			if err == nil {
				return block, nil
			}
			if err := m.explain(p, bytes, by, err); err != nil {
				return bfc.Block{}, err
			}
		}
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.routeLocked(ordinal, scope, stream)
	if err != nil {
		return bfc.Block{}, err
	}
	return m.allocateLocked(p, stream, known, bytes, by)
}

// IdleBytes returns how much memory the pools on a CUDA ordinal have in no block, without what they keep for graphs. It
// takes no lock of the manager: the caller may be any code that asks the driver for free memory.
func (m *Manager) IdleBytes(ordinal int) (bytes uint64) {
	pools := m.hot.Load()
	if pools == nil {
		return 0
	}
	for _, p := range *pools {
		if p.device.Ordinal == ordinal {
			s := p.bfc.Stats()
			bytes += s.BytesReserved - s.BytesInUse - s.CapturedBytes
		}
	}
	return bytes
}

// Allocate allocates bytes on a logical GPU, for the default stream. The block counts for the holder. Size 0 returns
// the zero block. If the memory is exhausted it returns ResourceExhausted with a full report.
func (m *Manager) Allocate(number int, bytes uint64, by holder.ID) (bfc.Block, error) {
	if pools := m.hot.Load(); pools != nil && number >= 0 && number < len(*pools) {
		p := (*pools)[number]
		block, err := p.allocate(gpu.StreamNull, Uncaptured, bytes, by)
		if err == nil {
			return block, nil
		}
		if err := m.explain(p, bytes, by, err); err != nil {
			return bfc.Block{}, err
		}
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return bfc.Block{}, err
	}
	return m.allocateLocked(p, gpu.StreamNull, Uncaptured, bytes, by)
}

func (m *Manager) allocateLocked(p *pool, stream gpu.Stream, known Known, bytes uint64, by holder.ID) (
	bfc.Block, error) {
	block, err := p.allocate(stream, known, bytes, by)
	if err != nil {
		return bfc.Block{}, m.outOfMemoryLocked(p, bytes, by, err)
	}
	return block, nil
}

// explain adds the report to the error of an allocation that failed on the fast path. It returns nil if the caller must
// take the slow path: the pool is closed or about to be, or it was closed while the allocation called the driver, which
// fails then.
func (m *Manager) explain(p *pool, bytes uint64, by holder.ID, err error) error {
	if isShut(err) {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !slices.Contains(m.gpus, p) {
		return nil
	}
	return m.outOfMemoryLocked(p, bytes, by, err)
}

func (p *pool) allocate(stream gpu.Stream, known Known, bytes uint64, by holder.ID) (bfc.Block, error) {
	owner, err := p.ownerOf(stream, known, bytes)
	if err != nil {
		return bfc.Block{}, err
	}
	block, err := p.bfc.AllocateFor(owner, bytes, by)
	if err != nil && !bfc.IsInjected(err) && p.captures.reclaim(p.bfc) {
		block, err = p.bfc.AllocateFor(owner, bytes, by)
	}
	return block, err
}

// ownerOf returns the allocator's number for the owner of an allocation of bytes for a stream.
func (p *pool) ownerOf(stream gpu.Stream, known Known, bytes uint64) (bfc.Stream, error) {
	if bytes == 0 {
		return 0, nil
	}
	p.captures.reclaimSometimes(p.bfc)
	if isLegacy(stream) {
		return 0, nil
	}
	if known&Uncaptured == 0 {
		if id, err := p.captures.of(stream); err != nil || id != 0 {
			return p.captureOf(id, stream, err)
		}
	}
	return p.numbers.of(stream, known&Lasting != 0, p.bfc)
}

// captureOf is ownerOf for a stream that takes part in a capture, unless that could not be found out.
func (p *pool) captureOf(id uint64, stream gpu.Stream, err error) (bfc.Stream, error) {
	if err != nil {
		return 0, err
	}
	number, err := p.numbers.ofCaptured(stream, p.bfc)
	if err != nil {
		return 0, err
	}
	return p.captures.owner(id, stream, number, p.bfc)
}

// Free frees a block by its address, on any logical GPU. Freeing the zero block does nothing.
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

// TryFreeID is FreeID for a caller that must not wait: it returns false, and has done nothing, where FreeID may wait.
func (m *Manager) TryFreeID(addr, id uint64) (tried bool, err error) {
	p := m.owners.find(addr)
	if p == nil {
		return false, nil
	}
	tried, err = p.bfc.TryFreeID(addr, id)
	if !tried || err != nil {
		return tried, freeError(err)
	}
	p.frees.freed()
	return true, nil
}

// FreeID frees a block if it still has the given id.
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

// errForeign is the error for freeing an address that no pool owns; nil for the zero block.
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

// freeError returns the pool's error, or errClosed if the pool is closed: then the Manager is closed too, or about to
// be.
func freeError(err error) error {
	if isShut(err) {
		return errClosed()
	}
	return err
}

// isShut reports whether a pool failed because it is closed or about to be closed.
func isShut(err error) bool {
	return errors.Is(err, bfc.ErrSealed) || status.CodeOf(err) == status.FailedPrecondition
}

// freeSignal lets a thread sleep until memory is freed. Frees are counted, so that one between a failed allocation and
// the wait is never missed: wait returns at once if the count has changed. The allocator counts under its own lock, so
// a free that the check of the count misses happens after waiting was raised, and wakes the waiter.
type freeSignal struct {
	waiting atomic.Int32

	mu sync.Mutex
	ch chan struct{} // guarded by mu; closed by the next wake; nil while no thread waits
}

// freed wakes the waiters, after the free was counted. Without waiters it costs one load.
func (s *freeSignal) freed() {
	if s.waiting.Load() > 0 {
		s.wake()
	}
}

func (s *freeSignal) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// wait returns when the count differs from seen, or after timeout.
func (s *freeSignal) wait(count func() uint64, seen uint64, timeout time.Duration) {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	s.mu.Lock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	ch := s.ch
	s.mu.Unlock()
	// The channel exists: from here on a free either changes the count before this check or closes the channel.
	if count() != seen {
		return
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-ch:
	case <-timer.C:
	}
}

// FailAllocation makes the n-th allocation from now on fail with an injected out-of-memory error. Allocations of all
// threads on all logical GPUs count, also on those of later layouts, for every library; those of 0 bytes do not. It
// replaces an earlier call. 0 ends the counting, as closing the Manager does.
func (m *Manager) FailAllocation(n uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	m.failure = nil
	if n > 0 {
		m.failure = bfc.NewFailure(n)
	}
	m.injectLocked(m.gpus)
	return nil
}

// CountedAllocations returns the number of allocations since FailAllocation, up to and including the one that failed.
func (m *Manager) CountedAllocations() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.failure == nil {
		return 0
	}
	return m.failure.Counted()
}

// CountForeign counts an allocation of a library that has an allocator of its own. It returns the out-of-memory error
// of the one that must fail.
func (m *Manager) CountForeign(bytes uint64) error {
	m.mu.RLock()
	failure := m.failure
	m.mu.RUnlock()
	if failure == nil || !failure.Due() {
		return nil
	}
	return status.Errorf(status.ResourceExhausted, "Tried to allocate %s: out of memory, an injected failure, which "+
		"a test requested", human.Exact(bytes))
}

func (m *Manager) injectLocked(pools []*pool) {
	for _, p := range pools {
		p.bfc.Inject(m.failure)
	}
}
