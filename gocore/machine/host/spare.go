// SPDX-License-Identifier: Apache-2.0

package host

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
