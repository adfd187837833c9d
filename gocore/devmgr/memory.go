package devmgr

import (
	"time"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
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
	return p.frees.count.Load(), nil
}

// WaitForFree blocks until a block of the logical GPU is freed after seen was read from Frees, or until timeout. A Close ends it
// with FailedPrecondition.
func (m *Manager) WaitForFree(number int, seen uint64, timeout time.Duration) error {
	m.mu.RLock()
	p, err := m.poolLocked(number)
	m.mu.RUnlock()
	if err != nil {
		return err
	}
	p.frees.wait(seen, timeout)
	if m.Closed() {
		return errClosed()
	}
	return nil
}

// CopyFromHost writes src to device memory inside one live block; CopyToHost reads it back. Both check that the
// range lies inside the block that begins at base.
func (m *Manager) CopyFromHost(base, offset uint64, src []byte) error {
	return m.copy(base, offset, uint64(len(src)), func(d gpu.Driver, ordinal int) error {
		return d.MemcpyHtoD(ordinal, base+offset, src)
	})
}

// CopyToHost reads device memory inside one live block into dst.
func (m *Manager) CopyToHost(base, offset uint64, dst []byte) error {
	return m.copy(base, offset, uint64(len(dst)), func(d gpu.Driver, ordinal int) error {
		return d.MemcpyDtoH(ordinal, dst, base+offset)
	})
}

func (m *Manager) copy(base, offset, bytes uint64, move func(gpu.Driver, int) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.ownerLocked(base)
	if err != nil {
		return err
	}
	_, requested, ok := p.bfc.Size(base)
	if !ok {
		return errNotLive(base)
	}
	if offset > requested || bytes > requested-offset {
		return status.Errorf(status.InvalidArgument, "a copy of %d bytes at offset %d does not fit in the buffer's %d bytes", bytes, offset, requested)
	}
	if bytes == 0 {
		return nil
	}
	if err := move(m.driver, p.device.Ordinal); err != nil {
		return driverError(err, "copying %d bytes at offset %d on %s", bytes, offset, shortName(p.number))
	}
	return nil
}

// poolLocked finds a logical GPU by number.
func (m *Manager) poolLocked(number int) (*pool, error) {
	if err := m.readyLocked(); err != nil {
		return nil, err
	}
	if number < 0 || number >= len(m.gpus) {
		return nil, errNoGPU(shortName(number), len(m.gpus))
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
	return status.Errorf(status.InvalidArgument, "0x%x is not the address of a live block: it was freed before, or never came from gpuconf", addr)
}

func errNoGPU(asked string, have int) error {
	if have == 0 {
		return status.Errorf(status.InvalidArgument, "%s is not there: %s", asked, howToSimulate)
	}
	return status.Errorf(status.InvalidArgument, "%s is not there: this process has %s (GPU:0 to GPU:%d)", asked, plural(uint64(have), "logical GPU"), have-1)
}
