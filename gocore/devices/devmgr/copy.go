// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// CopyFromHost writes src to device memory inside the live block with the given base and id; CopyToHost reads it back.
// Both fail if the range is not inside that block or the block was freed, even if its memory now belongs to another
// block.
//
// A free does not wait for a copy: the caller must not free a block while copying. If it does, the copy returns an
// error afterwards.
func (m *Manager) CopyFromHost(base, id, offset uint64, src []byte) error {
	return m.copy(base, id, offset, uint64(len(src)), func(d gpu.Driver, ordinal int) error {
		return d.MemcpyHtoD(ordinal, base+offset, src)
	})
}

// CopyToHost reads device memory inside one live block into dst.
func (m *Manager) CopyToHost(base, id, offset uint64, dst []byte) error {
	return m.copy(base, id, offset, uint64(len(dst)), func(d gpu.Driver, ordinal int) error {
		return d.MemcpyDtoH(ordinal, dst, base+offset)
	})
}

func (m *Manager) copy(base, id, offset, bytes uint64, move func(gpu.Driver, int) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.ownerLocked(base)
	if err != nil {
		return err
	}
	requested, live := p.holds(base, id)
	if !live {
		return errNotLive(base)
	}
	if offset > requested || bytes > requested-offset {
		return status.Errorf(status.InvalidArgument, "a copy of %d bytes at offset %d does not fit in the buffer's "+
			"%d bytes", bytes, offset, requested)
	}
	if bytes == 0 {
		return nil
	}
	if err := move(m.driver, p.device.Ordinal); err != nil {
		return driverError(err, "copying %d bytes at offset %d on %s", bytes, offset, shortName(p.number))
	}
	if _, live := p.holds(base, id); !live {
		return status.Errorf(status.InvalidArgument, "the block at 0x%x was freed while %d bytes of it were being "+
			"copied: the copied data and the contents of that memory are undefined", base, bytes)
	}
	return nil
}

// holds returns the requested size of a block, if it still has the given id.
func (p *pool) holds(base, id uint64) (requestedBytes uint64, live bool) {
	block, requestedBytes, live := p.bfc.Find(base)
	return requestedBytes, live && block.ID == id
}
