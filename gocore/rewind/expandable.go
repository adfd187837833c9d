package rewind

import (
	"cmp"
	"slices"

	"gpuconf/gocore/caching"
	"gpuconf/gocore/trace"
)

// reservedBytes stands in for the size of an expandable segment, which a record does not have: nine eighths of the GPU's memory.
const reservedBytes = 1 << 40

// mapping is a range of mapped addresses in an expandable segment.
type mapping struct {
	to     uint64
	stream uint64
	small  bool
	pool   [2]uint64
}

// mappings are the mapped ranges by their beginning. No two of one segment touch.
type mappings map[uint64]mapping

// expandableAtStart returns the expandable segments of which something was mapped at the beginning.
func expandableAtStart(gpu trace.GPUHistory, settings *caching.Settings) (areas []*area, err error) {
	groups := sizeGroups(gpu, settings)
	mapped := mappings{}
	for _, s := range gpu.Segments {
		if s.Expandable {
			mapped.add(s.Addr, mapping{s.Addr + s.Bytes, s.Stream, s.Small, s.Pool})
		}
	}
	for i, e := range slices.Backward(gpu.Events) {
		switch e.Action {
		case trace.SegmentUnmap:
			mapped.add(e.Addr, mapping{to: e.Addr + e.Bytes, stream: e.Stream, small: groups.small(e)})
		case trace.SegmentMap:
			if !mapped.remove(e.Addr, e.Addr+e.Bytes) {
				return nil, inconsistentf("event %d: the %d bytes that are mapped at %#x are neither unmapped nor there at the end", i+1, e.Bytes, e.Addr)
			}
		}
	}
	return mapped.areas(gpu.Events, groups), nil
}

// add adds a range and joins it with its neighbors in the same segment.
func (m mappings) add(from uint64, added mapping) {
	joins := func(other mapping) bool { return other.stream == added.stream && other.small == added.small }
	if next, there := m[added.to]; there && joins(next) {
		delete(m, added.to)
		added.to = next.to
		added.pool = next.pool
	}
	for start, before := range m {
		if before.to == from && joins(before) {
			from = start
			added.pool = before.pool
			break
		}
	}
	m[from] = added
}

func (m mappings) remove(from, to uint64) bool {
	for start, r := range m {
		if start > from || to > r.to {
			continue
		}
		delete(m, start)
		if start < from {
			lower := r
			lower.to = from
			m[start] = lower
		}
		if to < r.to {
			m[to] = r
		}
		return true
	}
	return false
}

// areas groups ranges by their segment: nothing of another segment lies between the parts of one.
func (m mappings) areas(events []trace.Event, groups groups) (areas []*area) {
	starts := make([]uint64, 0, len(m))
	for start := range m {
		starts = append(starts, start)
	}
	slices.Sort(starts)
	for _, start := range starts {
		r := m[start]
		part := span{start, r.to}
		if n := len(areas); n > 0 {
			last := areas[n-1]
			if last.Stream == r.stream && last.Small == r.small && last.Pool == r.pool {
				last.mapped = append(last.mapped, part)
				continue
			}
		}
		areas = append(areas, &area{
			Segment: trace.Segment{Addr: start, Stream: r.stream, Small: r.small, Pool: r.pool, Expandable: true},
			mapped:  []span{part},
		})
	}
	for i, a := range areas {
		floor, end := uint64(0), a.Addr+reservedBytes
		if i > 0 {
			before := areas[i-1].mapped
			floor = before[len(before)-1].to
		}
		a.Addr = a.base(events, groups, floor)
		if i+1 < len(areas) {
			end = min(end, areas[i+1].base(events, groups, a.mapped[len(a.mapped)-1].to))
		}
		a.Bytes = end - a.Addr
	}
	return areas
}

// base returns where the segment begins: the lowest address at which memory is mapped before all of it is unmapped.
func (a *area) base(events []trace.Event, groups groups, floor uint64) uint64 {
	base, held := a.Addr, uint64(0)
	for _, m := range a.mapped {
		held += m.to - m.from
	}
	for _, e := range events {
		if e.Action != trace.SegmentMap && e.Action != trace.SegmentUnmap || e.Stream != a.Stream ||
			e.Addr < floor || e.Addr >= a.Addr+reservedBytes || groups.small(e) != a.Small {
			continue
		}
		switch e.Action {
		case trace.SegmentMap:
			base = min(base, e.Addr)
			held += e.Bytes
		case trace.SegmentUnmap:
			if held -= min(held, e.Bytes); held == 0 {
				return base
			}
		}
	}
	return base
}

// groups distinguishes small blocks' addresses from large ones'.
type groups struct {
	settings *caching.Settings
	sizes    []trace.Event // any event with the address and the size of a block, in the order of addresses
}

func sizeGroups(gpu trace.GPUHistory, settings *caching.Settings) groups {
	g := groups{settings: settings}
	for _, e := range gpu.Events {
		if e.Action == trace.Allocate || e.Action == trace.Free {
			g.sizes = append(g.sizes, e)
		}
	}
	slices.SortFunc(g.sizes, func(a, b trace.Event) int { return cmp.Compare(a.Addr, b.Addr) })
	return g
}

// small reports whether a range that is mapped or unmapped is for small blocks: as a block in it says or, if there is none, its size.
func (g groups) small(e trace.Event) bool {
	i, _ := slices.BinarySearchFunc(g.sizes, e.Addr, func(b trace.Event, addr uint64) int { return cmp.Compare(b.Addr, addr) })
	if i < len(g.sizes) && g.sizes[i].Addr-e.Addr < e.Bytes {
		return g.settings.Round(g.sizes[i].Bytes) <= mostUnsplit
	}
	granule := uint64(20 << 20)
	if g.settings.LargeSegmentBytes > 0 {
		granule = g.settings.LargeSegmentBytes
	}
	return e.Bytes%granule != 0
}
