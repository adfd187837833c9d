// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
)

// routeLocked returns the pool that serves an allocation on a CUDA ordinal: the scope's, a number, if it is on that
// ordinal; else the one that the stream belongs to; else the ordinal's first.
func (m *Manager) routeLocked(ordinal, scope int, stream gpu.Stream) (*pool, error) {
	if p := m.routed(m.gpus, ordinal, scope, stream); p != nil {
		return p, nil
	}
	if m.closed {
		return nil, errClosed()
	}
	return nil, status.Errorf(status.InvalidArgument, "CUDA device %d has no logical GPU: it does not exist, is not "+
		"visible, or gpuconf is not initialized yet (call gpuconf.config.list_logical_devices(), in C gpuconf_init())",
		ordinal)
}

// routed returns the pool for routeLocked, or nil.
func (m *Manager) routed(pools []*pool, ordinal, scope int, stream gpu.Stream) *pool {
	if scope >= 0 && scope < len(pools) && pools[scope].device.Ordinal == ordinal {
		return pools[scope]
	}
	if p := m.streams.find(stream, ordinal); p != nil {
		return p
	}
	return firstOf(pools, ordinal)
}

func firstOf(pools []*pool, ordinal int) *pool {
	for _, p := range pools {
		if p.device.Ordinal == ordinal {
			return p
		}
	}
	return nil
}

// ownStreams maps streams to logical GPUs. A thread without a device scope, such as an autograd worker, runs its work
// in the stream of the scope that the work comes from, so the stream identifies the logical GPU to allocate from.
//
// The first logical GPU of an ordinal needs no stream: it is the default. Each further one has a stream from the first
// call of StreamOf on. It is a blocking stream, so that it stays ordered with the legacy default stream.
type ownStreams struct {
	mu     sync.Mutex // serializes StreamOf
	owners atomic.Pointer[map[gpu.Stream]*pool]
}

// find returns the logical GPU that a stream of an ordinal belongs to, or nil.
func (o *ownStreams) find(stream gpu.Stream, ordinal int) *pool {
	if stream <= gpu.StreamPerThread {
		return nil
	}
	known := o.owners.Load()
	if known == nil {
		return nil
	}
	if p := (*known)[stream]; p != nil && p.device.Ordinal == ordinal {
		return p
	}
	return nil
}

// StreamOf returns the stream of a logical GPU: the null stream for the first logical GPU of an ordinal, else a stream
// of its own, which has the logical device's priority and lasts until Close.
func (m *Manager) StreamOf(number int) (gpu.Stream, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return 0, err
	}
	if firstOf(m.gpus, p.device.Ordinal) == p {
		return gpu.StreamNull, nil
	}
	m.streams.mu.Lock()
	defer m.streams.mu.Unlock()
	if p.stream != gpu.StreamNull {
		return p.stream, nil
	}
	stream, err := m.driver.StreamCreate(p.device.Ordinal, gpu.StreamDefault, p.priority)
	if err != nil {
		return 0, driverError(err, "%s: cannot create its stream", shortName(number))
	}
	p.stream = stream
	next := map[gpu.Stream]*pool{stream: p}
	if known := m.streams.owners.Load(); known != nil {
		maps.Copy(next, *known)
	}
	m.streams.owners.Store(&next)
	return stream, nil
}

// closeStream destroys the pool's own stream. The caller holds Manager.mu for writing.
func (p *pool) closeStream(driver gpu.Driver) error {
	if p.stream == gpu.StreamNull {
		return nil
	}
	stream := p.stream
	p.stream = gpu.StreamNull
	if err := driver.StreamDestroy(p.device.Ordinal, stream); err != nil {
		return driverError(err, "%s: cannot destroy its stream", shortName(p.number))
	}
	return nil
}

// What other libraries' allocators (PyTorch, CuPy and Numba, through the C symbols) need beyond Allocate and Free.

// RecordStream declares that a live block is used in a stream other than the one it was allocated for, so that it is
// not reused before that work is done.
func (m *Manager) RecordStream(addr uint64, stream gpu.Stream) error {
	return m.onStream(addr, stream, func(p *pool, s bfc.Stream) error { return p.bfc.RecordStream(addr, s) })
}

// FreeOn frees a block that was last used in stream, which may differ from the stream it was allocated for.
func (m *Manager) FreeOn(addr uint64, stream gpu.Stream) error {
	return m.onStream(addr, stream, func(p *pool, s bfc.Stream) error {
		if err := p.bfc.FreeOn(addr, s); err != nil {
			return err
		}
		p.frees.freed()
		return nil
	})
}

func (m *Manager) onStream(addr uint64, stream gpu.Stream, do func(*pool, bfc.Stream) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.ownerLocked(addr)
	if err != nil {
		return err
	}
	if _, _, live := p.bfc.Size(addr); !live {
		return errNotLive(addr) // before the stream gets a number for it
	}
	owner, err := p.ownerOf(stream, 0, 1)
	if err != nil {
		return err
	}
	return do(p, owner)
}

// Trim returns memory without live blocks to the GPUs, and reports how many bytes that was.
func (m *Manager) Trim() (releasedBytes uint64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.readyLocked(); err != nil {
		return 0, err
	}
	for _, p := range m.gpus {
		p.captures.reclaim(p.bfc)
		released, refusal := p.bfc.Trim()
		releasedBytes += released
		err = errors.Join(err, refusal)
	}
	return releasedBytes, err
}

// Region returns the range of driver memory that contains an address.
func (m *Manager) Region(addr uint64) (start, bytes uint64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return 0, 0, errClosed()
	}
	r := m.owners.region(addr)
	if r == nil {
		return 0, 0, errNotLive(addr)
	}
	return r.start, r.end - r.start, nil
}

// RequireFraction serves a library's request to limit itself to a fraction of an ordinal's memory. It fails if the
// limits of the ordinal's logical GPUs exceed that fraction: limits cannot change after the devices are initialized.
func (m *Manager) RequireFraction(ordinal int, fraction float64) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	first, err := m.routeLocked(ordinal, -1, gpu.StreamNull)
	if err != nil {
		return err
	}
	var limit uint64
	for _, p := range m.gpus {
		if p.device.Ordinal == ordinal {
			limit += p.limitBytes
		}
	}
	if total := first.device.TotalBytes; float64(limit) > fraction*float64(total) {
		return status.Errorf(status.FailedPrecondition, "a fraction of %g of CUDA device %d is less than its limit of "+
			"%s: limits cannot change once the devices are initialized. Set the limit before that with "+
			"gpuconf.configure(limit=\"%g%%\")", fraction, ordinal, human.Bytes(limit), fraction*100)
	}
	return nil
}
