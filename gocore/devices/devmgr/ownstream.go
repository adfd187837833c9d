// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"maps"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/machine/gpu"
)

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
	if m.firstLocked(p.device.Ordinal) == p {
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
