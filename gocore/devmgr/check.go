package devmgr

import "gpuconf/gocore/status"

// Check walks every invariant of the configuration and of every pool, and that owners knows each pool's regions and nothing
// else. It stops the world: no call goes on beside it.
func (m *Manager) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	if err := m.state.Check(); err != nil {
		return status.Errorf(status.Internal, "the configuration: %w", err)
	}
	regions := 0
	for _, p := range m.gpus {
		if err := p.bfc.Check(); err != nil {
			return status.Errorf(status.Internal, "%s: %w", shortName(p.number), err)
		}
		for _, r := range p.bfc.MemoryMap().Regions {
			regions++
			if m.owners.find(r.Addr) != p || m.owners.find(r.Addr+r.Bytes-1) != p {
				return status.Errorf(status.Internal, "invariant 2: the region of %d bytes at %#x is not known to be of %s", r.Bytes, r.Addr, shortName(p.number))
			}
		}
	}
	if known := m.owners.count(); known != regions {
		return status.Errorf(status.Internal, "invariant 2: %d regions have an owner, but the pools have %d", known, regions)
	}
	return nil
}
