// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"math"
	"slices"
	"sort"
)

// span is a range of addresses, [begin, end).
type span struct {
	begin, end uint64
	mapped     bool // consists of mappings, and can grow, shrink and split; else it is one allocation
}

// spans are disjoint and sorted by address. Adjacent mapped spans are merged.
type spans []span

// after returns the index of the first span that ends after addr.
func (s spans) after(addr uint64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].end > addr })
}

// holds reports whether the range lies within one span; false for an empty range.
func (s spans) holds(addr, bytes uint64) bool {
	i := s.after(addr)
	return bytes > 0 && i < len(s) && s[i].begin <= addr && bytes <= s[i].end-addr
}

// addAllocation adds an allocation.
func (s *spans) addAllocation(addr, bytes uint64) {
	*s = slices.Insert(*s, s.after(addr), span{begin: addr, end: addr + bytes})
}

// takeAllocation removes the allocation that begins at addr.
func (s *spans) takeAllocation(addr uint64) (bytes uint64, ok bool) {
	i := s.after(addr)
	if i == len(*s) || (*s)[i].begin != addr || (*s)[i].mapped {
		return 0, false
	}
	bytes = (*s)[i].end - addr
	*s = slices.Delete(*s, i, i+1)
	return bytes, true
}

// addMapped adds a range of mappings, parts of which may already be present. It joins adjacent ones (invariant 7).
func (s *spans) addMapped(addr, bytes uint64) {
	added := span{addr, addr + bytes, true}
	from := s.after(addr)
	if from > 0 && (*s)[from-1].mapped && (*s)[from-1].end == addr {
		from--
	}
	to := from
	for ; to < len(*s) && (*s)[to].mapped && (*s)[to].begin <= added.end; to++ {
		added.begin = min(added.begin, (*s)[to].begin)
		added.end = max(added.end, (*s)[to].end)
	}
	*s = slices.Replace(*s, from, to, added)
}

// cutMapped removes a range of mappings and returns the parts that were present.
func (s *spans) cutMapped(addr, bytes uint64) (cut []span) {
	end := addr + min(bytes, math.MaxUint64-addr)
	from := s.after(addr)
	to := from
	var rest []span
	for ; to < len(*s) && (*s)[to].mapped && (*s)[to].begin < end; to++ {
		old := (*s)[to]
		if old.begin < addr {
			rest = append(rest, span{old.begin, addr, true})
		}
		if old.end > end {
			rest = append(rest, span{end, old.end, true})
		}
		cut = append(cut, span{max(old.begin, addr), min(old.end, end), true})
	}
	*s = slices.Replace(*s, from, to, rest...)
	return cut
}

// onlyMapped returns a copy without the allocations.
func (s spans) onlyMapped() spans {
	return slices.DeleteFunc(slices.Clone(s), func(one span) bool { return !one.mapped })
}
