// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"time"

	"gpuconf/gocore/base/status"
)

// LimitBytes is the hard limit of a logical GPU.
func (m *Manager) LimitBytes(number int) (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return 0, err
	}
	return p.limitBytes, nil
}

// Frees counts the frees on a logical GPU so far; WaitForFree sleeps until there is one more, or for timeout.
func (m *Manager) Frees(number int) (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return 0, err
	}
	return p.bfc.Frees(), nil
}

// WaitForFree blocks until a block of the logical GPU is freed after seen was read from Frees, or until timeout. If the
// Manager is closed meanwhile, it returns FailedPrecondition.
func (m *Manager) WaitForFree(number int, seen uint64, timeout time.Duration) error {
	m.mu.RLock()
	p, err := m.poolLocked(number)
	m.mu.RUnlock()
	if err != nil {
		return err
	}
	p.frees.wait(p.bfc.Frees, seen, timeout)
	if m.Closed() {
		return errClosed()
	}
	return nil
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
