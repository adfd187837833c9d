package devmgr

import (
	"gpuconf/gocore/bfc"
	"gpuconf/gocore/status"
)

// Route gives the logical GPU that serves an allocation on a CUDA ordinal: the one that the scope names, a number, if
// it lies on that ordinal, else the ordinal's first.
func (m *Manager) Route(ordinal, scope int) (number int, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.routeLocked(ordinal, scope)
	if err != nil {
		return -1, err
	}
	return p.number, nil
}

// AllocateOn allocates where Route says, in one go.
func (m *Manager) AllocateOn(ordinal, scope int, bytes uint64) (bfc.Block, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.routeLocked(ordinal, scope)
	if err != nil {
		return bfc.Block{}, err
	}
	return m.allocateLocked(p, bytes)
}

func (m *Manager) routeLocked(ordinal, scope int) (*pool, error) {
	if scope >= 0 && scope < len(m.gpus) && m.gpus[scope].device.Ordinal == ordinal {
		return m.gpus[scope], nil
	}
	for _, p := range m.gpus {
		if p.device.Ordinal == ordinal {
			return p, nil
		}
	}
	if m.closed {
		return nil, errClosed()
	}
	return nil, status.Errorf(status.InvalidArgument, "CUDA device %d has no logical GPU: it is not there, not visible, or gpuconf is not "+
		"initialised yet (call gpuconf.config.list_logical_devices())", ordinal)
}
