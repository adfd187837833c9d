// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"sort"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/invariants"
)

// addressSpace holds the ranges of MemAddressReserve and of managed memory. The machine's lock guards it.
//
// The machine keeps a range from the host until it closes: a freed range is spare, and is used for later
// reservations. So a stale view of it never accesses unrelated memory.
type addressSpace struct {
	virtual      bool           // some card has virtual memory management
	alignment    uint64         // of every range, at least
	taken        []span         // from the host, in the order of taking
	spare        []span         // parts of taken that are not in use, in address order, never adjacent
	reservations []*reservation // in address order
}

// mostRangeBytes is larger than any zone. Rounding up to it does not wrap around.
const mostRangeBytes = 1 << 62

// span is a range of addresses.
type span struct{ base, bytes uint64 }

func (s span) end() uint64 { return s.base + s.bytes }

// reservation is a range of MemAddressReserve.
type reservation struct {
	span
	mappings []mapping // in address order
}

// mapping is a part at an address.
type mapping struct {
	span
	part       *part
	accessible bool
}

// reserve finds or takes a range.
func (a *addressSpace) reserve(bytes, alignment uint64) (uint64, error) {
	switch {
	case !a.virtual:
		return 0, spaceError(gpu.ErrorNotSupported, "no simulated GPU supports virtual memory management")
	case bytes == 0 || bytes%pageBytes() != 0:
		return 0, spaceError(gpu.ErrorInvalidValue, "invalid reservation of %d bytes", bytes)
	case alignment&(alignment-1) != 0:
		return 0, spaceError(gpu.ErrorInvalidValue, "alignment %d is not a power of two", alignment)
	}
	base, err := a.find(bytes, max(alignment, a.alignment))
	if err != nil {
		return 0, spaceError(gpu.ErrorOutOfMemory, "the host refused %d bytes of address space (%v)", bytes, err)
	}
	at, _ := a.search(base)
	a.reservations = slices.Insert(a.reservations, at, &reservation{span: span{base, bytes}})
	a.check()
	return base, nil
}

// find returns a spare range, taken from the host if necessary.
func (a *addressSpace) find(bytes, alignment uint64) (base uint64, err error) {
	if bytes > mostRangeBytes {
		return 0, unix.ENOMEM
	}
	base, found := a.takeSpare(bytes, alignment)
	if !found {
		if err := a.take(bytes, alignment); err != nil {
			return 0, err
		}
		base, _ = a.takeSpare(bytes, alignment)
	}
	return base, nil
}

// occupy finds a range and makes it readable and writable. vacate releases it.
func (a *addressSpace) occupy(bytes uint64) (base uint64, err error) {
	base, err = a.find(bytes, a.alignment)
	if err != nil {
		return 0, err
	}
	if err := makeAccessible(base, roundUp(bytes, pageBytes())); err != nil {
		a.vacate(base, bytes)
		return 0, err
	}
	a.check()
	return base, nil
}

func (a *addressSpace) vacate(addr, bytes uint64) {
	a.addSpare(span{addr, roundUp(bytes, a.alignment)})
	_ = decommit(addr, bytes) // if the host fails here, it only keeps the pages longer
	a.check()
}

// take obtains a spare range from the host, large enough for the given one. It takes whole steps of address space, so that many
// small reservations need few ranges of the host.
func (a *addressSpace) take(bytes, alignment uint64) error {
	bytes = roundUp(bytes, alignedStepBytes)
	base, err := reserveAligned(bytes, alignment)
	if err != nil {
		return err
	}
	a.taken = append(a.taken, span{base, bytes})
	a.addSpare(span{base, bytes})
	return nil
}

// takeSpare takes the lowest spare range that fits. Spare ranges begin and end at multiples of a.alignment.
func (a *addressSpace) takeSpare(bytes, alignment uint64) (base uint64, found bool) {
	bytes = roundUp(bytes, a.alignment)
	for i, s := range a.spare {
		base = roundUp(s.base, alignment)
		if base < s.base || base > s.end() || s.end()-base < bytes {
			continue
		}
		var rest []span
		if base > s.base {
			rest = append(rest, span{s.base, base - s.base})
		}
		if end := base + bytes; end < s.end() {
			rest = append(rest, span{end, s.end() - end})
		}
		a.spare = slices.Replace(a.spare, i, i+1, rest...)
		return base, true
	}
	return 0, false
}

// free makes a reservation spare.
func (a *addressSpace) free(addr, bytes uint64) error {
	at, found := a.search(addr)
	if !found || a.reservations[at].bytes != bytes {
		return spaceError(gpu.ErrorInvalidValue, "%d bytes at %#x are not a reservation", bytes, addr)
	}
	if n := len(a.reservations[at].mappings); n > 0 {
		return spaceError(gpu.ErrorInvalidValue, "the reservation at %#x still has %d mappings", addr, n)
	}
	a.reservations = slices.Delete(a.reservations, at, at+1)
	a.addSpare(span{addr, roundUp(bytes, a.alignment)})
	_ = decommit(addr, bytes) // drops what stale views have written
	a.check()
	return nil
}

// addSpare adds a range to the spare ones and merges it with adjacent ones.
func (a *addressSpace) addSpare(s span) {
	at := sort.Search(len(a.spare), func(i int) bool { return a.spare[i].base >= s.base })
	from, to := at, at
	if at > 0 && a.spare[at-1].end() == s.base {
		from--
		s = span{a.spare[from].base, a.spare[from].bytes + s.bytes}
	}
	if at < len(a.spare) && s.end() == a.spare[at].base {
		s.bytes += a.spare[at].bytes
		to++
	}
	a.spare = slices.Replace(a.spare, from, to, s)
}

// search returns the index of the reservation at addr, or the index at which to insert it.
func (a *addressSpace) search(addr uint64) (at int, found bool) {
	at = sort.Search(len(a.reservations), func(i int) bool { return a.reservations[i].base >= addr })
	return at, at < len(a.reservations) && a.reservations[at].base == addr
}

// around returns the reservation that contains the range.
func (a *addressSpace) around(addr, bytes uint64) (*reservation, error) {
	at := sort.Search(len(a.reservations), func(i int) bool { return a.reservations[i].base > addr }) - 1
	if at >= 0 {
		r := a.reservations[at]
		if offset := addr - r.base; offset <= r.bytes && bytes <= r.bytes-offset {
			return r, nil
		}
	}
	return nil, spaceError(gpu.ErrorInvalidValue, "%d bytes at %#x are not within one reservation", bytes, addr)
}

// firstFrom is the first mapping that ends above addr.
func (r *reservation) firstFrom(addr uint64) int {
	return sort.Search(len(r.mappings), func(i int) bool { return r.mappings[i].end() > addr })
}

// hole returns the index at which to insert a mapping of a range in which nothing is mapped.
func (r *reservation) hole(addr, bytes uint64) (at int, err error) {
	at = r.firstFrom(addr)
	if at < len(r.mappings) && r.mappings[at].base < addr+bytes {
		return 0, spaceError(gpu.ErrorInvalidValue, "%d bytes at %#x overlap an existing mapping", bytes, addr)
	}
	return at, nil
}

// whole returns the mappings that cover exactly the given range, without gaps.
func (r *reservation) whole(addr, bytes uint64) (from, to int, err error) {
	from = r.firstFrom(addr)
	next := addr
	for to = from; to < len(r.mappings) && next < addr+bytes && r.mappings[to].base == next; to++ {
		next = r.mappings[to].end()
	}
	if bytes == 0 || next != addr+bytes {
		return 0, 0, spaceError(gpu.ErrorInvalidValue, "%d bytes at %#x are not a contiguous range of whole mappings", bytes, addr)
	}
	return from, to, nil
}

// accessible reports whether c may access every byte of a range.
func (a *addressSpace) accessible(c *card, addr, bytes uint64) bool {
	r, err := a.around(addr, bytes)
	if err != nil {
		return false
	}
	next := addr
	for i := r.firstFrom(addr); i < len(r.mappings) && next < addr+bytes; i++ {
		m := r.mappings[i]
		if m.base > next || !m.accessible || m.part.card != c {
			return false
		}
		next = m.end()
	}
	return next >= addr+bytes
}

// close returns all addresses to the host.
func (a *addressSpace) close() (first error) {
	for _, s := range a.taken {
		if err := unmap(s.base, s.bytes); err != nil && first == nil {
			first = fmt.Errorf("reserved addresses: unmap: %w (%w)", err, gpu.ErrorUnknown)
		}
	}
	*a = addressSpace{virtual: a.virtual, alignment: a.alignment}
	return first
}

func spaceError(result gpu.Result, format string, args ...any) error {
	return fmt.Errorf("simulated address space: %s: %w", fmt.Sprintf(format, args...), result)
}

// check checks invariants 5 and 6 of doc.go after a change.
func (a *addressSpace) check() {
	if !invariants.Enabled {
		return
	}
	low := uint64(0)
	for _, r := range a.reservations {
		invariants.Check(r.base >= low, "sim 5: the reservation at %#x begins below %#x", r.base, low)
		low = r.end()
		r.check(0, len(r.mappings))
	}
	low = 0
	for _, s := range a.spare {
		invariants.Check(s.base > low || low == 0, "sim 5: spare ranges meet at %#x", low)
		low = s.end()
		_, err := a.around(s.base, 0)
		invariants.Check(err != nil || a.isEnd(s.base), "sim 5: the spare range at %#x is reserved", s.base)
	}
}

// isEnd reports whether a reservation ends at addr.
func (a *addressSpace) isEnd(addr uint64) bool {
	return slices.ContainsFunc(a.reservations, func(r *reservation) bool { return r.end() == addr })
}

// check checks invariant 6 of doc.go for mappings from to to, and the one after them.
func (r *reservation) check(from, to int) {
	if !invariants.Enabled {
		return
	}
	low := r.base
	if from > 0 {
		low = r.mappings[from-1].end()
	}
	for _, m := range r.mappings[from:min(to+1, len(r.mappings))] {
		invariants.Check(m.base >= low, "sim 6: the mapping at %#x begins below %#x", m.base, low)
		invariants.Check(m.part.mappings > 0, "sim 6: the mapping at %#x has no part", m.base)
		low = m.end()
	}
	invariants.Check(low <= r.end(), "sim 6: a mapping ends outside its reservation")
}
