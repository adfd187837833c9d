package devmgr

import (
	"gpuconf/gocore/bfc"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

// Route gives the logical GPU that serves an allocation on a CUDA ordinal: the one that the scope names, a number, if
// it lies on that ordinal; else the one that the stream stands for; else the ordinal's first.
func (m *Manager) Route(ordinal, scope int, stream gpu.Stream) (number int, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.routeLocked(ordinal, scope, stream)
	if err != nil {
		return -1, err
	}
	return p.number, nil
}

// AllocateOn allocates where Route says, for work of a CUDA stream. Memory that another stream has freed is handed over
// only once its work is done, or with a wait queued in this stream.
func (m *Manager) AllocateOn(ordinal, scope int, stream gpu.Stream, bytes uint64) (bfc.Block, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.routeLocked(ordinal, scope, stream)
	if err != nil {
		return bfc.Block{}, err
	}
	return m.allocateLocked(p, stream, bytes)
}

func (m *Manager) routeLocked(ordinal, scope int, stream gpu.Stream) (*pool, error) {
	if scope >= 0 && scope < len(m.gpus) && m.gpus[scope].device.Ordinal == ordinal {
		return m.gpus[scope], nil
	}
	if p := m.streams.find(stream, ordinal); p != nil {
		return p, nil
	}
	if p := m.firstLocked(ordinal); p != nil {
		return p, nil
	}
	if m.closed {
		return nil, errClosed()
	}
	return nil, status.Errorf(status.InvalidArgument, "CUDA device %d has no logical GPU: it is not there, not visible, or gpuconf is not "+
		"initialised yet (call gpuconf.config.list_logical_devices())", ordinal)
}

// firstLocked is the first logical GPU of an ordinal, or nil.
func (m *Manager) firstLocked(ordinal int) *pool {
	for _, p := range m.gpus {
		if p.device.Ordinal == ordinal {
			return p
		}
	}
	return nil
}
