// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"sort"

	"gpuconf/gocore/invariants"
)

const (
	// unitBytes is the granularity of charges and of small allocations' addresses.
	unitBytes = 256
	// largeBytes: allocations of at least this size are aligned to it.
	largeBytes = 2 << 20
)

// arena allocates parts of one reservation, first fit, lowest address first. The machine's lock guards it.
type arena struct {
	base     uint64 // the reservation
	reserved uint64
	end      uint64 // committed end: everything in [base, end) may be touched

	live    []block // in address order
	charged uint64
}

// block is a live allocation.
type block struct {
	addr    uint64
	bytes   uint64 // as requested: copies are checked against it
	charged uint64 // bytes rounded up
}

func (b block) end() uint64 { return b.addr + b.charged }

// holds reports whether bytes at addr, which is not below the block, lie within it.
func (b block) holds(addr, bytes uint64) bool {
	offset := addr - b.addr
	return offset <= b.bytes && bytes <= b.bytes-offset
}

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }

// allocate allocates charged bytes, of which bytes were requested. found is false if no range is large enough; err is the
// host's error.
func (a *arena) allocate(bytes, charged uint64) (addr uint64, found bool, err error) {
	addr, at, found := a.firstFit(charged)
	if !found {
		return 0, false, nil
	}
	if err := a.commit(addr + charged); err != nil {
		return 0, true, err
	}
	a.live = slices.Insert(a.live, at, block{addr: addr, bytes: bytes, charged: charged})
	a.charged += charged
	a.check()
	return addr, true, nil
}

// firstFit finds the lowest range for charged bytes, and its place in the list of live allocations.
func (a *arena) firstFit(charged uint64) (addr uint64, at int, ok bool) {
	alignment := uint64(unitBytes)
	if charged >= largeBytes {
		alignment = largeBytes
	}
	addr = a.base
	for i, b := range a.live {
		if addr <= b.addr && b.addr-addr >= charged {
			return addr, i, true
		}
		addr = roundUp(b.end(), alignment)
	}
	limit := a.base + a.reserved
	return addr, len(a.live), addr <= limit && limit-addr >= charged
}

// commit makes everything below end accessible. A host that does not overcommit memory may refuse.
func (a *arena) commit(end uint64) error {
	if end <= a.end {
		return nil
	}
	end = min(roundUp(end, pageBytes()), a.base+a.reserved)
	if err := makeAccessible(a.end, end-a.end); err != nil {
		return err
	}
	a.end = end
	return nil
}

// free frees the allocation at addr; it returns false if there is none.
func (a *arena) free(addr uint64) bool {
	at, found := a.search(addr)
	if !found {
		return false
	}
	b := a.live[at]
	a.live = slices.Delete(a.live, at, at+1)
	a.charged -= b.charged
	a.check()
	a.discard(b, at)
	return true
}

// discard returns the pages that b leaves unused to the host. at is b's former index. A page shared with an adjacent allocation
// stays until that is freed too.
func (a *arena) discard(b block, at int) {
	low, high := a.base, a.end
	if at > 0 {
		low = a.live[at-1].end()
	}
	if at < len(a.live) {
		high = a.live[at].addr
	}
	page := pageBytes()
	begin := max(b.addr/page*page, roundUp(low, page))
	end := min(roundUp(b.end(), page), high/page*page)
	if begin < end {
		// If the host fails here, it only keeps pages longer; the accounting is unaffected.
		_ = decommit(begin, end-begin)
	}
}

// freeAll frees every allocation, as when a context ends.
func (a *arena) freeAll() {
	for len(a.live) > 0 {
		a.free(a.live[len(a.live)-1].addr)
	}
}

// search returns the index of the allocation at addr, or the index at which to insert it.
func (a *arena) search(addr uint64) (at int, found bool) {
	at = sort.Search(len(a.live), func(i int) bool { return a.live[i].addr >= addr })
	return at, at < len(a.live) && a.live[at].addr == addr
}

// holds reports whether bytes at addr lie within one live allocation.
func (a *arena) holds(addr, bytes uint64) bool {
	at, found := a.search(addr)
	if !found {
		at--
	}
	if at < 0 {
		return false
	}
	return a.live[at].holds(addr, bytes)
}

// check checks invariants 1, 2 and 4 of doc.go after a change.
func (a *arena) check() {
	if !invariants.Enabled {
		return
	}
	sum, low := uint64(0), a.base
	for _, b := range a.live {
		invariants.Check(b.addr >= low, "sim 1: allocation at %#x begins below %#x", b.addr, low)
		low = b.end()
		sum += b.charged
	}
	invariants.Check(low <= a.base+a.reserved, "sim 1: an allocation ends outside the reservation")
	invariants.Check(sum == a.charged, "sim 2: %d bytes charged, %d live", a.charged, sum)
	invariants.Check(low <= a.end || len(a.live) == 0, "sim 4: a live allocation is not accessible")
}
