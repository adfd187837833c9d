package devmgr

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/gpu"
)

// ownStreams says which logical GPU a stream stands for. A thread that has no scope of its own, such as autograd's workers,
// runs its work in the stream of the scope that the work comes from; so the stream tells whose memory it is.
//
// The first logical GPU of an ordinal needs none: it gets what nobody else claims. Each further one has a stream from the
// first call of StreamOf on. It is a blocking stream, so that it and the legacy default stream keep their order by themselves.
type ownStreams struct {
	mu     sync.Mutex // serialises StreamOf
	owners atomic.Pointer[map[gpu.Stream]*pool]
}

// find gives the logical GPU that a stream of an ordinal stands for, or nil.
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

// StreamOf gives the stream that stands for a logical GPU: the null stream for the first of an ordinal, else one of its own, which
// has the logical device's priority and lasts until Close.
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

// closeStreams ends the pools' own streams. mu is held for writing.
func (m *Manager) closeStreams() (err error) {
	m.streams.owners.Store(nil)
	for _, p := range m.gpus {
		if p.stream == gpu.StreamNull {
			continue
		}
		if refusal := m.driver.StreamDestroy(p.device.Ordinal, p.stream); refusal != nil {
			err = errors.Join(err, driverError(refusal, "%s: cannot destroy its stream", shortName(p.number)))
		}
		p.stream = gpu.StreamNull
	}
	return err
}
