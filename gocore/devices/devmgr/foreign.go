// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
)

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
