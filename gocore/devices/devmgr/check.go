// SPDX-License-Identifier: Apache-2.0

package devmgr

import "gpuconf/gocore/base/status"

// Check verifies every invariant of the configuration and of every pool, and that owners contains exactly the pools'
// memory. It excludes all other calls.
func (m *Manager) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	if err := m.state.Check(); err != nil {
		return status.Errorf(status.Internal, "configuration: %w", err)
	}
	owned := 0
	for _, p := range m.gpus {
		n, err := m.checkPoolLocked(p)
		if err != nil {
			return err
		}
		owned += n
	}
	if known := m.owners.count(); known != owned {
		return status.Errorf(status.Internal, "invariant 2: %d address ranges have an owner, but the pools hold %d",
			known, owned)
	}
	return nil
}

// checkPoolLocked checks one pool and counts the address ranges that owners should have for it: a growing pool's range
// is one, whatever is mapped in it, and so is each region outside it.
func (m *Manager) checkPoolLocked(p *pool) (owned int, err error) {
	if err := p.bfc.Check(); err != nil {
		return 0, status.Errorf(status.Internal, "%s: %w", shortName(p.number), err)
	}
	var start, end uint64
	if p.virtual != nil {
		if err := p.virtual.Check(); err != nil {
			return 0, status.Errorf(status.Internal, "%s: %w", shortName(p.number), err)
		}
		addr, bytes, _ := p.virtual.Range()
		start, end = addr, addr+bytes
		if bytes > 0 {
			owned++
		}
	}
	for _, r := range p.bfc.MemoryMap().Regions {
		if m.owners.find(r.Addr) != p || m.owners.find(r.Addr+r.Bytes-1) != p {
			return 0, status.Errorf(status.Internal, "invariant 2: the region of %d bytes at %#x is not registered "+
				"as owned by %s",
				r.Bytes, r.Addr, shortName(p.number))
		}
		if r.Addr < start || r.Addr >= end {
			owned++
		}
	}
	return owned, nil
}
