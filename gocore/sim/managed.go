// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"sort"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/invariants"
)

// managed is a card's managed memory. Each allocation has its own address range in the machine's address space, because no
// reservation would be large enough for a card that is oversubscribed. The machine's lock guards it.
type managed struct {
	live    []block // in address order
	charged uint64
}

// MemAllocManaged allocates managed memory of a card. All memory is host memory here, so only the accounting distinguishes what is
// on the card.
func (m *Machine) MemAllocManaged(ordinal int, bytes uint64) (addr uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return 0, err
	}
	if err := c.allowsManaged(bytes); err != nil {
		return 0, err
	}
	charged := roundUp(bytes, unitBytes)
	if addr, err = m.space.occupy(charged); err != nil {
		return 0, c.errorf(gpu.ErrorOutOfMemory, "the host refused %d bytes of managed memory (%v)", bytes, err)
	}
	c.managed.add(block{addr: addr, bytes: bytes, charged: charged})
	c.check()
	return addr, nil
}

func (c *card) allowsManaged(bytes uint64) error {
	switch {
	case !c.description.Managed:
		return c.errorf(gpu.ErrorNotSupported, "it has no managed memory")
	case bytes == 0:
		return c.errorf(gpu.ErrorInvalidValue, "a managed allocation of 0 bytes")
	case !c.description.Oversubscribes:
		return c.affords(bytes)
	case roundUp(bytes, unitBytes) < bytes:
		return c.errorf(gpu.ErrorOutOfMemory, "%d bytes requested", bytes)
	}
	return nil
}

// freeManaged frees the managed allocation at addr; it returns false if there is none.
func (m *Machine) freeManaged(c *card, addr uint64) bool {
	b, found := c.managed.take(addr)
	if found {
		m.space.vacate(b.addr, b.charged)
		c.check()
	}
	return found
}

func (m *Machine) freeAllManaged(c *card) {
	for len(c.managed.live) > 0 {
		m.freeManaged(c, c.managed.live[len(c.managed.live)-1].addr)
	}
}

func (g *managed) add(b block) {
	g.live = slices.Insert(g.live, g.after(b.addr), b)
	g.charged += b.charged
	g.check()
}

func (g *managed) take(addr uint64) (b block, found bool) {
	at := g.after(addr) - 1
	if at < 0 || g.live[at].addr != addr {
		return block{}, false
	}
	b = g.live[at]
	g.live = slices.Delete(g.live, at, at+1)
	g.charged -= b.charged
	g.check()
	return b, true
}

// after is the index of the first allocation that begins above addr.
func (g *managed) after(addr uint64) int {
	return sort.Search(len(g.live), func(i int) bool { return g.live[i].addr > addr })
}

// holds reports whether bytes at addr lie within one live allocation.
func (g *managed) holds(addr, bytes uint64) bool {
	at := g.after(addr) - 1
	return at >= 0 && g.live[at].holds(addr, bytes)
}

// check checks invariants 1 and 2 of doc.go after a change.
func (g *managed) check() {
	if !invariants.Enabled {
		return
	}
	sum, low := uint64(0), uint64(0)
	for _, b := range g.live {
		invariants.Check(b.addr >= low, "sim 1: the managed allocation at %#x begins below %#x", b.addr, low)
		low = b.end()
		sum += b.charged
	}
	invariants.Check(sum == g.charged, "sim 2: %d managed bytes charged, %d live", g.charged, sum)
}
