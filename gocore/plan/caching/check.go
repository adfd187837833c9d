// SPDX-License-Identifier: Apache-2.0

package caching

import "fmt"

// Check returns an error that names the first broken invariant. Its time is proportional to the number of blocks.
func (a *Allocator) Check() error {
	var reserved uint64
	shelved := map[*Block]bool{}
	for _, s := range a.order {
		for _, list := range []*ordered{&s.free, &s.unmapped} {
			var before *Block
			for _, b := range list.all() {
				if before != nil && !list.keyOf(before).before(list.keyOf(b)) {
					return fmt.Errorf("the blocks at %#x and %#x are out of order", before.Addr, b.Addr)
				}
				if b.shelf != s || (b.state == unmapped) != (list == &s.unmapped) ||
					b.state != free && b.state != unmapped {
					return fmt.Errorf("the block at %#x is on the wrong shelf", b.Addr)
				}
				before, shelved[b] = b, true
			}
		}
	}
	for s := range a.segments {
		at := s.addr
		var before *Block
		for b := s.head; b != nil; before, b = b, b.next {
			switch {
			case b.Addr != at || b.Bytes == 0 || b.prev != before || b.segment != s:
				return fmt.Errorf("the segment at %#x has a gap at %#x", s.addr, at)
			case before != nil && before.state == b.state && (b.state == free || b.state == unmapped):
				return fmt.Errorf("the blocks at %#x and %#x are not merged", before.Addr, b.Addr)
			case (b.state == free || b.state == unmapped) != shelved[b]:
				return fmt.Errorf("the block at %#x is free and on no shelf, or the other way round", b.Addr)
			}
			at += b.Bytes
			if b.state != unmapped {
				reserved += b.Bytes
			}
		}
		if at != s.addr+s.bytes {
			return fmt.Errorf("the blocks of the segment at %#x have %d bytes, not %d", s.addr, at-s.addr, s.bytes)
		}
	}
	if reserved != a.reserved {
		return fmt.Errorf("the segments have %d bytes, and %d are counted", reserved, a.reserved)
	}
	return nil
}
