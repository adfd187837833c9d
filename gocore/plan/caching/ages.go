// SPDX-License-Identifier: Apache-2.0

package caching

import "slices"

// ages is what is known of the order in which the restored segments were taken. It matters where ties go by age.
type ages struct {
	order []*segment                         // the oldest first, as far as is known: at i, the one with the number i+1
	older map[*segment]map[*segment]struct{} // by segment, those that are known to be older
}

// mostLearned bounds what one allocation teaches. What is not learned may have to be learned from a wrong address.
const mostLearned = 16

// Learn notes what it says about ages that b, which has just been allocated, serves a request: its segment is older
// than the others with a free block of the size that its free block had.
func (a *Allocator) Learn(b *Block) {
	if a.ties != sizeAgeAddr || !a.restored(b.segment) {
		return
	}
	learned, size := 0, b.Bytes+b.FreeAfter()
	for other := range b.shelf.free.from(key{first: size}) {
		if other.Bytes > size || learned == mostLearned {
			return
		}
		if a.restored(other.segment) && other.segment != b.segment {
			a.ages.note(b.segment, other.segment)
			learned++
		}
	}
}

func (a *Allocator) restored(s *segment) bool { return s.number <= uint64(len(a.ages.order)) }

func (g *ages) note(older, younger *segment) {
	if g.older == nil {
		g.older = map[*segment]map[*segment]struct{}{}
	}
	if g.older[younger] == nil {
		g.older[younger] = map[*segment]struct{}{}
	}
	g.older[younger][older] = struct{}{}
}

// Older makes the segment of the free block at addr older than that of the free block at than, which serves a request
// at present. It reports whether that decides and agrees with everything learned: the blocks have the same size, and
// both segments were restored.
func (a *Allocator) Older(r Request, addr, than uint64) bool {
	rounded := a.settings.Round(r.Bytes)
	var served, other *Block
	for b := range a.shelf(shelfKey{r.Pool, rounded <= mostSmall, r.Stream}).free.from(key{first: rounded}) {
		switch b.Addr {
		case than:
			served = b
		case addr:
			other = b
		}
		if served != nil && b.Bytes > served.Bytes {
			break
		}
	}
	if served == nil || other == nil || served.Bytes != other.Bytes || !a.restored(served.segment) ||
		!a.restored(other.segment) {
		return false
	}
	return a.reorder(other.segment, served.segment)
}

// reorder moves a segment before another one, with all between them that are known to be older than it.
func (a *Allocator) reorder(s, before *segment) bool {
	known := a.ages.allOlder(s)
	if _, contradicts := known[before]; contradicts || s.number < before.number {
		return false
	}
	from := before.number - 1
	between := a.ages.order[from:s.number]
	var first, rest []*segment
	for _, other := range between {
		if _, there := known[other]; there || other == s {
			first = append(first, other)
		} else {
			rest = append(rest, other)
		}
	}
	for i, other := range slices.Concat(first, rest) {
		between[i] = other
		a.renumber(other, from+uint64(i)+1)
	}
	return true
}

// allOlder returns the segments that are known to be older than one, through others, too.
func (g *ages) allOlder(s *segment) map[*segment]struct{} {
	older := map[*segment]struct{}{}
	for next := []*segment{s}; len(next) > 0; {
		s, next = next[len(next)-1], next[:len(next)-1]
		for other := range g.older[s] {
			if _, there := older[other]; !there {
				older[other] = struct{}{}
				next = append(next, other)
			}
		}
	}
	return older
}

// renumber changes the number of a segment, which may have been released.
func (a *Allocator) renumber(s *segment, number uint64) {
	if _, there := a.segments[s]; !there {
		s.number = number
		return
	}
	for b := s.head; b != nil; b = b.next {
		if b.state == free {
			b.shelf.free.remove(b)
		}
	}
	s.number = number
	for b := s.head; b != nil; b = b.next {
		if b.state == free {
			b.shelf.free.insert(b)
		}
	}
}
