// SPDX-License-Identifier: Apache-2.0

package caching

// fit takes the free block that serves a request from its shelf, or returns nil.
func (a *Allocator) fit(s *shelf, rounded uint64) *Block {
	if a.collects() {
		*s.counted++
	}
	b := a.bestFit(s, rounded)
	if b == nil || a.settings.oversize(rounded, b.Bytes) {
		return nil
	}
	s.free.remove(b)
	return b
}

// bestFit returns the smallest block that is large enough, and of several the lowest.
func (a *Allocator) bestFit(s *shelf, rounded uint64) (best *Block) {
	for b := range s.free.from(key{first: rounded}) {
		switch {
		case b.segment.expandable && !a.settings.ExpandableSegments:
			continue // expandable segments have been turned off: they only get blocks back
		case best == nil:
			best = b
			if !a.settings.ExpandableSegments || !best.segment.expandable {
				return best
			}
		// The size of a block that can grow is the size that it can grow to. It is taken only if no block is smaller
		// than that.
		case room(b) < room(best):
			best = b
			if !best.segment.expandable {
				return best
			}
		default:
			return best
		}
	}
	return best
}

// room is the size that a block can grow to.
func room(b *Block) uint64 {
	if b.next != nil && b.next.state == unmapped {
		return b.Bytes + b.next.Bytes
	}
	return b.Bytes
}
