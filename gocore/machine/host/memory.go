// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// Alignment is the alignment of every block's address: a cache line, which also suits vector instructions.
const Alignment = 64

// mappedBytes is the size from which a block is mapped instead of allocated on the Go heap.
const mappedBytes = 1 << 20

// Memory allocates blocks of host memory by address. The zero Memory is ready to use.
type Memory struct {
	mu     sync.RWMutex
	blocks map[uint64]block // guarded by mu
	spares spares           // guarded by mu
	lastID uint64           // guarded by mu
	inUse  uint64           // guarded by mu
}

// block is one live allocation.
type block struct {
	id     uint64
	data   []byte // the requested bytes
	room   []byte // data and what is behind it
	mapped []byte // the whole mapping, nil for a block on the Go heap
}

// Allocate returns the address of a block, whose contents are undefined, and an id that distinguishes it from earlier
// blocks at the same address. Size 0 returns address 0 and changes nothing. If the host is out of memory, the error is
// ResourceExhausted.
func (m *Memory) Allocate(bytes uint64) (addr, id uint64, err error) {
	if bytes == 0 {
		return 0, 0, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.spares.take(bytes)
	if !ok {
		if b, err = m.newBlockLocked(bytes); err != nil {
			return 0, 0, err
		}
	}
	if m.blocks == nil {
		m.blocks = map[uint64]block{}
	}
	m.lastID++
	b.id, b.data = m.lastID, b.room[:bytes:bytes]
	addr = addressOf(b.data)
	m.blocks[addr] = b
	m.inUse += bytes
	return addr, b.id, nil
}

func (m *Memory) newBlockLocked(bytes uint64) (block, error) {
	if bytes < mappedBytes {
		padded := make([]byte, bytes+Alignment-1)
		skip := -addressOf(padded) % Alignment
		return block{room: padded[skip : skip+bytes : skip+bytes]}, nil
	}
	if bytes > math.MaxInt {
		return block{}, outOfMemory(bytes, unix.ENOMEM)
	}
	mapped, err := mapNew(bytes)
	if err != nil {
		if err := releaseAll(m.spares.all()); err != nil {
			return block{}, err
		}
		mapped, err = mapNew(bytes)
	}
	if err != nil {
		return block{}, outOfMemory(bytes, err)
	}
	return block{room: mapped, mapped: mapped}, nil
}

func mapNew(bytes uint64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func outOfMemory(bytes uint64, err error) error {
	return status.Errorf(status.ResourceExhausted, "the host is out of memory: could not map %d bytes (%w)", bytes, err)
}

// Free frees the block that was allocated at addr with id. Freeing address 0 does nothing. If addr and id do not name a
// live block, the error is InvalidArgument and nothing changes.
func (m *Memory) Free(addr, id uint64) error {
	if addr == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, live := m.blocks[addr]
	if !live || b.id != id {
		return errNotLive(addr)
	}
	m.removeLocked(addr, b)
	return releaseAll(m.spares.keep(b))
}

func (m *Memory) removeLocked(addr uint64, b block) {
	delete(m.blocks, addr)
	m.inUse -= uint64(len(b.data))
}

func (b block) release() error {
	if b.mapped == nil {
		return nil
	}
	if err := unix.Munmap(b.mapped); err != nil {
		return status.Errorf(status.Internal, "unmapping a block of %d bytes failed: %w", len(b.mapped), err)
	}
	return nil
}

func releaseAll(blocks []block) error {
	var err error
	for _, b := range blocks {
		err = errors.Join(err, b.release())
	}
	return err
}

// CopyFromHost copies src into the live block at addr with id, starting at offset. If the range exceeds the block, the
// error is InvalidArgument and nothing is copied.
func (m *Memory) CopyFromHost(addr, id, offset uint64, src []byte) error {
	return m.within(addr, id, offset, len(src), func(data []byte) { copy(data, src) })
}

// CopyToHost copies from such a block into dst. It fails as CopyFromHost does.
func (m *Memory) CopyToHost(addr, id, offset uint64, dst []byte) error {
	return m.within(addr, id, offset, len(dst), func(data []byte) { copy(dst, data) })
}

func (m *Memory) within(addr, id, offset uint64, bytes int, use func([]byte)) error {
	if bytes == 0 {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, live := m.blocks[addr]
	if !live || b.id != id {
		return errNotLive(addr)
	}
	if size := uint64(len(b.data)); offset > size || uint64(bytes) > size-offset {
		return status.Errorf(status.InvalidArgument, "a copy of %d bytes at offset %d does not fit in a block of %d "+
			"bytes", bytes, offset, size)
	}
	use(b.data[offset : offset+uint64(bytes)])
	return nil
}

// Stats returns the number of live blocks and their total bytes.
func (m *Memory) Stats() (blocks int, bytesInUse uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.blocks), m.inUse
}

// Close frees all live blocks. The Memory is then empty and can be used again.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := releaseAll(m.spares.all())
	for addr, b := range m.blocks {
		m.removeLocked(addr, b)
		err = errors.Join(err, b.release())
	}
	return err
}

func errNotLive(addr uint64) error {
	return status.Errorf(status.InvalidArgument, "0x%x is not the address of a live block of host memory", addr)
}

// The sizes of freed blocks that are kept, and the bytes of all of them. The pages of a new block cost as much as a
// third of a 512 × 512 product, so a program that repeats its operations should get the same blocks again.
const (
	leastSpareBytes = 4 << 10
	mostSpareBytes  = 64 << 20
)

// spares are freed blocks, the oldest first.
type spares struct {
	list  []block
	bytes uint64
}

// take removes and returns the latest spare that fits, with less than an eighth unused.
func (s *spares) take(bytes uint64) (b block, ok bool) {
	for i := len(s.list) - 1; i >= 0; i-- {
		if room := uint64(len(s.list[i].room)); room >= bytes && room-bytes <= bytes/8 {
			return s.remove(i), true
		}
	}
	return block{}, false
}

func (s *spares) remove(i int) block {
	b := s.list[i]
	s.list = append(s.list[:i], s.list[i+1:]...)
	s.bytes -= uint64(len(b.room))
	return b
}

// keep adds a freed block and returns those to release instead: the oldest ones, or the block itself.
func (s *spares) keep(b block) (released []block) {
	room := uint64(len(b.room))
	if room < leastSpareBytes || room > mostSpareBytes {
		return []block{b}
	}
	for s.bytes+room > mostSpareBytes {
		released = append(released, s.remove(0))
	}
	s.list = append(s.list, b)
	s.bytes += room
	return released
}

// all removes and returns all spares.
func (s *spares) all() []block {
	list := s.list
	*s = spares{}
	return list
}
