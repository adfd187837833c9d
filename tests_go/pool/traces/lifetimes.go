package traces

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Lifetime is a block that is live from Lower until before Upper, in any unit of time.
type Lifetime struct {
	Lower, Upper uint64
	Bytes        uint64
}

// Lifetimes returns a trace that allocates and frees in order of time. At the same time, frees come first; otherwise
// the order of the list is kept.
func Lifetimes(name string, list []Lifetime) Trace {
	type event struct {
		time   uint64
		allocs bool
		which  int
	}
	var events []event
	for i, l := range list {
		events = append(events, event{l.Lower, true, i}, event{l.Upper, false, i})
	}
	slices.SortStableFunc(events, func(a, b event) int {
		if a.time != b.time {
			return cmp.Compare(a.time, b.time)
		}
		if a.allocs != b.allocs {
			if b.allocs {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.which, b.which)
	})
	b := newBuilder(name, 0)
	blocks := make([]uint32, len(list))
	for _, e := range events {
		if e.allocs {
			blocks[e.which] = b.alloc(list[e.which].Bytes)
		} else {
			b.free(blocks[e.which])
		}
	}
	return b.trace(0)
}

// The rectangle that a packing fills.
const (
	packingMoments = 1 << 20
	packingUnits   = 1 << 13
	packingUnit    = 2 << 20
)

// PackingBytes is the minimum that every packing needs, and enough with the best placement.
const PackingBytes = packingUnits * packingUnit

// Packing cuts a rectangle, time by memory, at random into the lifetimes of blocks, so that the least memory that they
// fit into is known: PackingBytes, all of which is live at every moment. Guillotine cuts go all the way through a
// piece. Otherwise half of the cuts are pinwheels: five pieces that no single cut can separate. Sizes are multiples of
// 2 MiB.
func Packing(seed uint64, pieces int, guillotine bool) []Lifetime {
	p := packing{random: rand.New(rand.NewPCG(seed, 6)), pinwheels: !guillotine}
	p.rects = []rect{{0, packingMoments, 0, packingUnits}}
	for len(p.rects) < pieces {
		p.cut()
	}
	list := make([]Lifetime, len(p.rects))
	for i, r := range p.rects {
		list[i] = Lifetime{Lower: r.t0, Upper: r.t1, Bytes: (r.m1 - r.m0) * packingUnit}
	}
	// the order must not reveal the places
	p.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// rect is a piece: two times and two heights.
type rect struct{ t0, t1, m0, m1 uint64 }

func (r rect) area() uint64 { return (r.t1 - r.t0) * (r.m1 - r.m0) }

type packing struct {
	random    *rand.Rand
	pinwheels bool
	rects     []rect
}

// cut cuts the largest of four pieces into two, or into five.
func (p *packing) cut() {
	at := p.random.IntN(len(p.rects))
	for range 3 {
		if i := p.random.IntN(len(p.rects)); p.rects[i].area() > p.rects[at].area() {
			at = i
		}
	}
	r := p.rects[at]
	wide, high := r.t1-r.t0, r.m1-r.m0
	var parts []rect
	switch {
	case p.pinwheels && wide >= 3 && high >= 3 && p.random.IntN(2) == 0:
		parts = p.pinwheel(r)
	case wide >= 2 && (high < 2 || p.random.IntN(2) == 0):
		t := p.between(r.t0, r.t1)
		parts = []rect{{r.t0, t, r.m0, r.m1}, {t, r.t1, r.m0, r.m1}}
	case high >= 2:
		m := p.between(r.m0, r.m1)
		parts = []rect{{r.t0, r.t1, r.m0, m}, {r.t0, r.t1, m, r.m1}}
	default:
		return
	}
	p.rects[at] = parts[0]
	p.rects = append(p.rects, parts[1:]...)
}

// between returns a number strictly between two numbers that are at least 2 apart, and not close to either if there is
// room.
func (p *packing) between(low, high uint64) uint64 {
	margin := max((high-low)/8, 1)
	return low + margin + p.random.Uint64N(high-low-2*margin+1)
}

// pinwheel puts four pieces around a fifth.
func (p *packing) pinwheel(r rect) []rect {
	ta := r.t0 + 1 + p.random.Uint64N(r.t1-r.t0-2)
	tb := ta + 1 + p.random.Uint64N(r.t1-ta-1)
	ma := r.m0 + 1 + p.random.Uint64N(r.m1-r.m0-2)
	mb := ma + 1 + p.random.Uint64N(r.m1-ma-1)
	return []rect{
		{r.t0, tb, r.m0, ma}, {tb, r.t1, r.m0, mb}, {ta, r.t1, mb, r.m1}, {r.t0, ta, ma, r.m1}, {ta, tb, ma, mb},
	}
}
