// SPDX-License-Identifier: Apache-2.0

package rewind

import (
	"cmp"
	"context"
	"slices"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
)

// reservedBytes stands in for the size of an expandable segment, which a record does not have: nine eighths of the
// GPU's memory.
const reservedBytes = 1 << 40

// mapping is a range of mapped addresses in an expandable segment.
type mapping struct {
	to     uint64
	stream uint64
	small  bool
	pool   [2]uint64
}

// mappings are the mapped ranges. No two of one segment touch.
type mappings struct {
	at     map[uint64]mapping // by beginning
	starts addresses
}

// expandableAtStart returns the expandable segments of which something was mapped at the beginning.
func expandableAtStart(ctx context.Context, gpu trace.GPUHistory, settings *caching.Settings) (
	areas []*area, err error) {
	groups := sizeGroups(gpu, settings)
	mapped := mappings{at: map[uint64]mapping{}}
	for _, s := range gpu.Segments {
		if s.Expandable {
			mapped.add(s.Addr, mapping{s.Addr + s.Bytes, s.Stream, s.Small, s.Pool})
		}
	}
	for i, e := range backward(ctx, gpu.Events) {
		switch e.Action {
		case trace.SegmentUnmap:
			added := mapping{to: e.Addr + e.Bytes, stream: e.Stream, small: groups.small(e)}
			if gpu.Pools != nil {
				added.pool = gpu.Pools[i]
			}
			mapped.add(e.Addr, added)
		case trace.SegmentMap:
			if !mapped.remove(e.Addr, e.Addr+e.Bytes) {
				return nil, inconsistentf("event %d: the %d bytes that are mapped at %#x are neither unmapped nor "+
					"there at the end", i+1, e.Bytes, e.Addr)
			}
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return mapped.areas(ctx, changes(gpu.Events, groups))
}

// change is an event that maps or unmaps memory.
type change struct {
	trace.Event
	small bool
}

func changes(events []trace.Event, groups groups) (list []change) {
	for _, e := range events {
		if e.Action == trace.SegmentMap || e.Action == trace.SegmentUnmap {
			list = append(list, change{e, groups.small(e)})
		}
	}
	return list
}

func (m *mappings) put(from uint64, r mapping) {
	if _, there := m.at[from]; !there {
		m.starts.insert(from)
	}
	m.at[from] = r
}

func (m *mappings) drop(from uint64) {
	m.starts.remove(from)
	delete(m.at, from)
}

// before returns the beginning of the last range that begins at an address or below.
func (m *mappings) before(addr uint64) (start uint64, ok bool) {
	run, i, ok := m.starts.upTo(addr)
	if !ok {
		return 0, false
	}
	return m.starts.runs[run][i], true
}

// add adds a range and joins it with its neighbors in the same segment.
func (m *mappings) add(from uint64, added mapping) {
	joins := func(other mapping) bool { return other.stream == added.stream && other.small == added.small }
	if next, there := m.at[added.to]; there && joins(next) {
		m.drop(added.to)
		added.to = next.to
		added.pool = next.pool
	}
	if start, there := m.before(from); there && m.at[start].to == from && joins(m.at[start]) {
		added.pool = m.at[start].pool
		from = start
	}
	m.put(from, added)
}

// remove removes a part of a range. It reports false if no range contains it.
func (m *mappings) remove(from, to uint64) bool {
	start, there := m.before(from)
	if !there || to > m.at[start].to {
		return false
	}
	lower, upper := m.at[start], m.at[start]
	m.drop(start)
	if start < from {
		lower.to = from
		m.put(start, lower)
	}
	if to < upper.to {
		m.put(to, upper)
	}
	return true
}

// areas groups ranges by their segment: nothing of another segment lies between the parts of one.
func (m *mappings) areas(ctx context.Context, changes []change) (areas []*area, err error) {
	for _, start := range slices.Concat(m.starts.runs...) {
		r := m.at[start]
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
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		floor, end := uint64(0), a.Addr+reservedBytes
		if i > 0 {
			before := areas[i-1].mapped
			floor = before[len(before)-1].to
		}
		a.Addr = a.base(changes, floor)
		if i+1 < len(areas) {
			end = min(end, areas[i+1].base(changes, a.mapped[len(a.mapped)-1].to))
		}
		a.Bytes = end - a.Addr
	}
	return areas, nil
}

// base returns where the segment begins: the lowest address at which memory is mapped before all of it is unmapped.
func (a *area) base(changes []change, floor uint64) uint64 {
	base, mapped := a.Addr, uint64(0)
	for _, m := range a.mapped {
		mapped += m.to - m.from
	}
	for _, e := range changes {
		if e.Stream != a.Stream || e.Addr < floor || e.Addr >= a.Addr+reservedBytes || e.small != a.Small {
			continue
		}
		switch e.Action {
		case trace.SegmentMap:
			base = min(base, e.Addr)
			mapped += e.Bytes
		case trace.SegmentUnmap:
			if mapped -= min(mapped, e.Bytes); mapped == 0 {
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

// small reports whether a range that is mapped or unmapped is for small blocks: as a block in it says or, if there is
// none, its size.
func (g groups) small(e trace.Event) bool {
	i, _ := slices.BinarySearchFunc(g.sizes, e.Addr,
		func(b trace.Event, addr uint64) int { return cmp.Compare(b.Addr, addr) })
	if i < len(g.sizes) && g.sizes[i].Addr-e.Addr < e.Bytes {
		return g.settings.Round(g.sizes[i].Bytes) <= mostUnsplit
	}
	granule := uint64(20 << 20)
	if g.settings.LargeSegmentBytes > 0 {
		granule = g.settings.LargeSegmentBytes
	}
	return e.Bytes%granule != 0
}
