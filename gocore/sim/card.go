package sim

import (
	"fmt"
	"slices"
	"sort"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/invariants"
)

const (
	// unitBytes is the granularity of charges and of small allocations' addresses.
	unitBytes = 256
	// largeBytes is the size from which on an allocation starts at a multiple of it.
	largeBytes = 2 << 20
)

// card is one GPU of an open machine. The machine's lock guards all of it but description, which never changes.
type card struct {
	description gpu.Device
	usedBytes   uint64 // in use by other processes; never changes

	base     uint64 // the reservation
	reserved uint64
	end      uint64 // committed end: everything in [base, end) may be touched

	retains int     // of the primary context
	live    []block // in address order
	charged uint64
}

// block is a live allocation.
type block struct {
	addr    uint64
	bytes   uint64 // as asked: what copies are checked against
	charged uint64 // bytes rounded up to unitBytes
}

func (b block) end() uint64 { return b.addr + b.charged }

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }

// reservationBytes is how much address space a card of that memory gets.
func reservationBytes(totalBytes uint64) uint64 { return roundUp(2*totalBytes, largeBytes) }

func (c *card) freeBytes() uint64 { return c.description.TotalBytes - c.usedBytes - c.charged }

// allocate takes memory, lowest address first.
func (c *card) allocate(bytes uint64) (addr uint64, err error) {
	if bytes == 0 {
		return 0, c.errorf(gpu.ErrorInvalidValue, "an allocation of 0 bytes")
	}
	if bytes > c.freeBytes() || roundUp(bytes, unitBytes) > c.freeBytes() {
		return 0, c.errorf(gpu.ErrorOutOfMemory, "%d bytes asked, %d of %d free", bytes, c.freeBytes(), c.description.TotalBytes)
	}
	charged := roundUp(bytes, unitBytes)
	addr, at, ok := c.firstFit(charged)
	if !ok {
		return 0, c.errorf(gpu.ErrorOutOfMemory, "%d bytes asked, %d free, but in no range of addresses", bytes, c.freeBytes())
	}
	if err := c.commit(addr + charged); err != nil {
		return 0, err
	}
	c.live = slices.Insert(c.live, at, block{addr: addr, bytes: bytes, charged: charged})
	c.charged += charged
	c.check()
	return addr, nil
}

// firstFit finds the lowest range for charged bytes, and its place in the list of live allocations.
func (c *card) firstFit(charged uint64) (addr uint64, at int, ok bool) {
	alignment := uint64(unitBytes)
	if charged >= largeBytes {
		alignment = largeBytes
	}
	addr = c.base
	for i, b := range c.live {
		if addr <= b.addr && b.addr-addr >= charged {
			return addr, i, true
		}
		addr = roundUp(b.end(), alignment)
	}
	limit := c.base + c.reserved
	return addr, len(c.live), addr <= limit && limit-addr >= charged
}

// commit makes everything below end accessible. A host that counts every promise of memory may refuse.
func (c *card) commit(end uint64) error {
	if end <= c.end {
		return nil
	}
	end = min(roundUp(end, pageBytes()), c.base+c.reserved)
	if err := makeAccessible(c.end, end-c.end); err != nil {
		return c.errorf(gpu.ErrorOutOfMemory, "the host refuses %d bytes of memory (%v)", end-c.end, err)
	}
	c.end = end
	return nil
}

// free gives the allocation at addr back.
func (c *card) free(addr uint64) error {
	at, found := c.search(addr)
	if !found {
		return c.errorf(gpu.ErrorInvalidValue, "%#x is not the address of a live allocation", addr)
	}
	b := c.live[at]
	c.live = slices.Delete(c.live, at, at+1)
	c.charged -= b.charged
	c.check()
	c.discard(b, at)
	return nil
}

// discard gives the pages that b leaves unused back to the host. at is where b was in the list. Pages shared with a
// neighbour stay until that one goes, too.
func (c *card) discard(b block, at int) {
	low, high := c.base, c.end
	if at > 0 {
		low = c.live[at-1].end()
	}
	if at < len(c.live) {
		high = c.live[at].addr
	}
	page := pageBytes()
	begin := max(b.addr/page*page, roundUp(low, page))
	end := min(roundUp(b.end(), page), high/page*page)
	if begin < end {
		// The books are right either way: a host that fails here only keeps pages longer.
		_ = decommit(begin, end-begin)
	}
}

// freeAll ends every allocation, as the end of a context does.
func (c *card) freeAll() {
	for len(c.live) > 0 {
		_ = c.free(c.live[len(c.live)-1].addr)
	}
}

// search finds the allocation at addr, or the place where it would be.
func (c *card) search(addr uint64) (at int, found bool) {
	at = sort.Search(len(c.live), func(i int) bool { return c.live[i].addr >= addr })
	return at, at < len(c.live) && c.live[at].addr == addr
}

// checkRange tells whether bytes at addr lie within one live allocation.
func (c *card) checkRange(addr, bytes uint64) error {
	at, found := c.search(addr)
	if !found {
		at--
	}
	if at >= 0 {
		b := c.live[at]
		if offset := addr - b.addr; offset <= b.bytes && bytes <= b.bytes-offset {
			return nil
		}
	}
	return c.errorf(gpu.ErrorInvalidValue, "%d bytes at %#x are not within one live allocation", bytes, addr)
}

func (c *card) errorf(result gpu.Result, format string, args ...any) error {
	return fmt.Errorf("simulated GPU %d: %s: %w", c.description.Ordinal, fmt.Sprintf(format, args...), result)
}

// check holds invariants 1 to 4 of doc.go after a change.
func (c *card) check() {
	if !invariants.Enabled {
		return
	}
	sum, low := uint64(0), c.base
	for _, b := range c.live {
		invariants.Check(b.addr >= low, "sim 1: allocation at %#x begins below %#x", b.addr, low)
		low = b.end()
		sum += b.charged
	}
	invariants.Check(low <= c.base+c.reserved, "sim 1: an allocation ends outside the reservation")
	invariants.Check(sum == c.charged, "sim 2: %d bytes charged, %d live", c.charged, sum)
	invariants.Check(c.charged <= c.description.TotalBytes-c.usedBytes, "sim 2: more charged than there is")
	invariants.Check(len(c.live) == 0 || c.retains > 0, "sim 3: live allocations without a context")
	invariants.Check(low <= c.end || len(c.live) == 0, "sim 4: a live allocation is not accessible")
}
