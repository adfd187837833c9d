// SPDX-License-Identifier: Apache-2.0

package rewind

import (
	"cmp"
	"slices"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
)

// mostUnsplit is the most that PyTorch leaves at the end of a large block.
const mostUnsplit = 1 << 20

// measure finds the sizes of the blocks that were live at the beginning. Those for which the record allows several get
// the smallest. unsure has, by address, how much larger they may be.
func (s *start) measure(settings *caching.Settings, events []trace.Event) (unsure map[uint64]uint64, err error) {
	open := map[uint64]uint64{} // address to smallest size
	for _, a := range s.segments {
		for i := range a.blocks {
			b := &a.blocks[i]
			end := a.end(b.addr)
			if i+1 < len(a.blocks) {
				end = min(end, a.blocks[i+1].addr)
			}
			least, room := settings.Round(b.requested), end-b.addr
			if b.bytes == 0 {
				b.bytes = least
				switch rest := room - least; {
				case least > room, settings.ExpandableSegments && a.Expandable, a.Small:
				case rest <= mostUnsplit || settings.Unsplit(least):
					b.bytes = room // no free block is that small, so the rest is part of this one
				default:
					open[b.addr] = least
				}
			}
			if b.bytes > room || b.bytes < b.requested {
				return nil, inconsistentf("the block of %d bytes at %#x, allocated when the record began, does not "+
					"fit into the %d bytes there", b.requested, b.addr, room)
			}
		}
	}
	s.resolve(open, events)
	unsure = map[uint64]uint64{}
	for addr := range open {
		unsure[addr] = mostUnsplit
	}
	return unsure, nil
}

// resolve goes through the events for the first allocation right behind each open block while it lives: it begins where
// the block ends.
func (s *start) resolve(open map[uint64]uint64, events []trace.Event) {
	addrs := make([]uint64, 0, len(open))
	for addr := range open {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	for _, e := range events {
		switch e.Action {
		case trace.Free:
			if i, there := slices.BinarySearch(addrs, e.Addr); there {
				addrs = slices.Delete(addrs, i, i+1)
			}
		case trace.Allocate:
			i, _ := slices.BinarySearch(addrs, e.Addr)
			if i == 0 {
				continue
			}
			addr := addrs[i-1]
			if bytes := e.Addr - addr; bytes >= open[addr] && bytes-open[addr] <= mostUnsplit {
				s.block(addr).bytes = bytes
				delete(open, addr)
				addrs = slices.Delete(addrs, i-1, i)
			}
		}
	}
}

func (s *start) block(addr uint64) *lived {
	a := areaAt(s.segments, addr)
	i, _ := slices.BinarySearchFunc(a.blocks, addr, func(b lived, addr uint64) int { return cmp.Compare(b.addr, addr) })
	return &a.blocks[i]
}

// end returns where the memory ends that begins at addr or before.
func (a *area) end(addr uint64) uint64 {
	if !a.Expandable {
		return a.Addr + a.Bytes
	}
	for _, m := range a.mapped {
		if addr >= m.from && addr < m.to {
			return m.to
		}
	}
	return addr
}
