// SPDX-License-Identifier: Apache-2.0

package plan

import "gpuconf/gocore/pool/suballoc"

// granules counts those of a range of addresses in which blocks lie: only the others can be moved. A nil one counts
// nothing.
type granules struct {
	addr, end uint64
	granule   uint64
	ends      []int32 // of blocks, by granule
	now, peak uint64  // bytes
}

func newGranules(v *suballoc.Virtual) *granules {
	addr, bytes, granule := v.Range()
	return &granules{addr: addr, end: addr + bytes, granule: granule}
}

// count adds n for the granules with the ends of a block and returns how many bytes of them no other block touches,
// with what lies between them. Nothing outside the range counts.
func (g *granules) count(addr, bytes uint64, n int32) (alone uint64) {
	if addr < g.addr || addr >= g.end {
		return 0
	}
	first, last := (addr-g.addr)/g.granule, (addr+bytes-1-g.addr)/g.granule
	for uint64(len(g.ends)) <= last {
		g.ends = append(g.ends, make([]int32, 1+len(g.ends))...)
	}
	at := func(i uint64) {
		if max(g.ends[i], g.ends[i]+n) == 1 {
			alone += g.granule
		}
		g.ends[i] += n
	}
	at(first)
	if last > first {
		at(last)
		alone += (last - first - 1) * g.granule
	}
	return alone
}

func (g *granules) add(addr, bytes uint64) {
	if g != nil {
		g.now += g.count(addr, bytes, 1)
		g.peak = max(g.peak, g.now)
	}
}

func (g *granules) remove(addr, bytes uint64) {
	if g != nil {
		g.now -= g.count(addr, bytes, -1)
	}
}

// most returns the most bytes that were counted, or would have been with a request that failed.
func (g *granules) most(short uint64) uint64 {
	if g == nil {
		return 0
	}
	return max(g.peak, g.now+short)
}
