// Package chunks_test compares the tables of the allocator with plain maps and sorted slices.
package chunks_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/pool/chunks"
	"gpuconf/tests_go/must"
)

const (
	unit = chunks.Granularity
	mib  = 1 << 20
	// large is a size from which on a class of free chunks has several sizes.
	large = 64 * mib
)

// world is a table with bins and an index, and what must be in them.
type world struct {
	table *chunks.Table
	bins  *chunks.Bins
	index *chunks.Index
	free  []uint32
}

func newWorld(t *testing.T, tensorFlow bool) *world {
	table := must.OK(chunks.NewTable(1<<30, tensorFlow))(t)
	bins := must.OK(chunks.NewBins(&table))(t)
	index := must.OK(chunks.NewIndex(table.Records))(t)
	t.Cleanup(func() {
		require.NoError(t, bins.Unmap())
		require.NoError(t, index.Unmap())
		require.NoError(t, table.Unmap())
	})
	return &world{table: &table, bins: &bins, index: &index}
}

// chunk makes a record of a free chunk, in no bins.
func (w *world) chunk(t *testing.T, addr, bytes uint64) uint32 {
	require.NoError(t, w.table.RoomFor(1))
	i := w.table.Take()
	w.table.Records[i] = chunks.FreeChunk(addr, bytes, chunks.None)
	return i
}

func (w *world) bytes(i uint32) uint64 { return w.table.Records[i].Bytes() }
func (w *world) addr(i uint32) uint64  { return w.table.Records[i].Addr() }

// insert puts a chunk into the bins and into the model.
func (w *world) insert(i uint32) {
	w.bins.Insert(i)
	w.free = append(w.free, i)
}

func (w *world) remove(n int) {
	w.bins.Remove(w.free[n])
	w.table.Recycle(w.free[n])
	w.free = slices.Delete(w.free, n, n+1)
}

// smallest returns the least size of at least so many bytes among the free chunks, or 0.
func (w *world) smallest(bytes uint64) (found uint64) {
	for _, i := range w.free {
		if b := w.bytes(i); b >= bytes && (found == 0 || b < found) {
			found = b
		}
	}
	return found
}

// size draws a size of any class: of one unit, of some MiB, of some GiB, and around the border of exact classes.
func size(random *rand.Rand) uint64 {
	bytes := uint64(1) << random.IntN(34)
	bytes += random.Uint64N(bytes)
	if random.IntN(4) == 0 {
		bytes = large - 8*mib + random.Uint64N(16*mib)
	}
	return max(bytes/unit, 1) * unit
}

// The bins return the smallest chunk that is large enough, whatever is inserted and removed, and know the largest.
// Under the TensorFlow rule it is the lowest one of that size; so it is among large chunks under either rule.
func TestBestFitIsTheSmallestThatFits(t *testing.T) {
	for _, tensorFlow := range []bool{false, true} {
		w := newWorld(t, tensorFlow)
		random := rand.New(rand.NewPCG(1, 2))
		used := map[uint64]bool{}
		sizes := make([]uint64, 40)
		for i := range sizes {
			sizes[i] = size(random)
		}
		for range 6000 {
			switch {
			case len(w.free) > 0 && random.IntN(100) < 45:
				w.remove(random.IntN(len(w.free)))
			default:
				bytes := sizes[random.IntN(len(sizes))]
				if random.IntN(3) == 0 {
					bytes = size(random)
				}
				addr := (1 + random.Uint64N(1<<30)) * unit
				if used[addr] {
					continue
				}
				used[addr] = true
				w.insert(w.chunk(t, addr, bytes))
			}
			bytes := size(random)
			if random.IntN(2) == 0 {
				bytes = sizes[random.IntN(len(sizes))]
			}
			found := w.bins.BestFit(bytes)
			if found == chunks.None {
				require.Zero(t, w.smallest(bytes))
				continue
			}
			require.Equal(t, w.smallest(bytes), w.bytes(found))
			if tensorFlow || w.bytes(found) >= large {
				for _, i := range w.free {
					if w.bytes(i) == w.bytes(found) {
						require.LessOrEqual(t, w.addr(found), w.addr(i))
					}
				}
			}
			largest := uint64(0)
			for _, i := range w.free {
				largest = max(largest, w.bytes(i))
			}
			require.Equal(t, largest, w.bins.LargestBytes())
		}
		visited := 0
		require.NoError(t, w.bins.Check(func(uint32) error { visited++; return nil }))
		require.Equal(t, len(w.free), visited)
		for len(w.free) > 0 {
			w.remove(0)
		}
		require.Equal(t, chunks.None, w.bins.BestFit(unit))
		require.Zero(t, w.bins.LargestBytes())
	}
}

// Of small chunks of one size, the lowest of those that were inserted since the first one was is taken.
func TestTheFirstOfALowerOneGoesInFront(t *testing.T) {
	w := newWorld(t, false)
	middle, low, high := w.chunk(t, 20*unit, unit), w.chunk(t, 10*unit, unit), w.chunk(t, 30*unit, unit)
	w.insert(middle)
	require.Equal(t, middle, w.bins.BestFit(1))
	w.insert(high)
	require.Equal(t, middle, w.bins.BestFit(1))
	w.insert(low)
	require.Equal(t, low, w.bins.BestFit(1))
	w.bins.Remove(low)
	require.Equal(t, middle, w.bins.BestFit(1))
}

// A large chunk keeps its place exactly as long as the order of sizes stays strict and the class is the same; then
// another can take its place.
func TestALargeChunkKeepsItsPlace(t *testing.T) {
	w := newWorld(t, false)
	small, middle := w.chunk(t, 1<<40, large+unit), w.chunk(t, 2<<40, large+5*unit)
	high := w.chunk(t, 3<<40, large+9*unit)
	for _, i := range []uint32{high, small, middle} {
		w.insert(i)
	}
	for _, row := range []struct {
		chunk uint32
		bytes uint64
		keeps bool
	}{
		{middle, large + 2*unit, true}, {middle, large + unit, false}, {middle, large, false},
		{middle, large + 8*unit, true}, {middle, large + 9*unit, false}, {middle, large + 10*unit, false},
		{small, large, true}, {small, large + 4*unit, true}, {small, large + 5*unit, false},
		{high, large + 6*unit, true}, {high, large + 5*unit, false}, {high, large + 500*unit, true},
		{high, 2 * large, false}, {small, large / 2, false}, {small, unit, false},
	} {
		require.Equal(t, row.keeps, w.bins.KeepsPlace(row.chunk, row.bytes), "%d of %d bytes to %d", row.chunk,
			w.bytes(row.chunk), row.bytes)
	}
	other := w.chunk(t, 4<<40, large+3*unit)
	w.bins.Replace(middle, other, large+3*unit)
	require.Equal(t, other, w.bins.BestFit(large+2*unit))
	require.Equal(t, high, w.bins.BestFit(large+4*unit))
	first := w.chunk(t, 5<<40, large)
	w.bins.Replace(small, first, large)
	require.Equal(t, first, w.bins.BestFit(large))
	require.NoError(t, w.bins.Check(func(uint32) error { return nil }))
	tiny := w.chunk(t, 6<<40, 4*unit)
	w.insert(tiny)
	require.False(t, w.bins.KeepsPlace(tiny, 4*unit), "small chunks have no place between sizes")
}

// Chunks in bins beside others are not seen by them.
func TestBinsBeside(t *testing.T) {
	w := newWorld(t, false)
	other := must.OK(w.bins.Beside())(t)
	i := w.chunk(t, unit, 3*unit)
	other.Insert(i)
	require.Equal(t, chunks.None, w.bins.BestFit(unit))
	require.Equal(t, i, other.BestFit(unit))
	require.NoError(t, other.UnmapBeside())
}

// The index finds every live chunk by its address, and no other, however it grows and shrinks.
func TestTheIndexFindsWhatIsInIt(t *testing.T) {
	w := newWorld(t, false)
	random := rand.New(rand.NewPCG(3, 4))
	live := map[uint64]uint32{}
	var addrs []uint64
	for step := range 60_000 {
		grows := step < 35_000
		if len(addrs) > 0 && random.IntN(100) < map[bool]int{true: 10, false: 80}[grows] {
			n := random.IntN(len(addrs))
			at, ok := w.index.Find(addrs[n])
			require.True(t, ok)
			require.Equal(t, live[addrs[n]], w.index.At(at))
			require.Equal(t, live[addrs[n]], w.index.Remove(at))
			w.table.Recycle(live[addrs[n]])
			delete(live, addrs[n])
			addrs[n] = addrs[len(addrs)-1]
			addrs = addrs[:len(addrs)-1]
			continue
		}
		addr := (1 + random.Uint64N(1<<20)) * unit
		at, ok := w.index.Find(addr)
		if chunk, there := live[addr]; there {
			require.True(t, ok)
			require.Equal(t, chunk, w.index.At(at))
			continue
		}
		require.False(t, ok)
		i := w.chunk(t, addr, unit)
		require.NoError(t, w.index.RoomForOne())
		require.True(t, w.index.HasRoom())
		w.index.Insert(addr, i)
		live[addr] = i
		addrs = append(addrs, addr)
		require.Equal(t, len(live), w.index.Count())
	}
	visited := 0
	require.NoError(t, w.index.Check(func(uint32) error { visited++; return nil }))
	require.Equal(t, len(live), visited)
}

// A table takes records until it is full, says how many it has, and takes those again that were recycled, the last one
// first.
func TestRecordsAreTakenAgain(t *testing.T) {
	table := must.OK(chunks.NewTable(0, false))(t)
	defer func() { require.NoError(t, table.Unmap()) }()
	most := len(table.Records) - int(table.Used())
	var taken []uint32
	for range most {
		require.True(t, table.HasFresh())
		require.NoError(t, table.RoomFor(1))
		taken = append(taken, table.Take())
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(taken))), most)
	require.NotContains(t, taken, chunks.None)
	require.False(t, table.HasFresh())
	require.ErrorContains(t, table.RoomFor(1), "an allocator's table")
	table.Recycle(taken[5])
	table.Recycle(taken[7])
	require.NoError(t, table.RoomFor(2))
	require.Error(t, table.RoomFor(3))
	var unused []uint32
	require.NoError(t, table.EachRecycled(func(i uint32) error { unused = append(unused, i); return nil }))
	require.Equal(t, []uint32{taken[7], taken[5]}, unused)
	require.Equal(t, []uint32{taken[7], taken[5]}, []uint32{table.Take(), table.Take()})
	require.Error(t, table.RoomFor(1))
}

// A chunk is split, its parts know each other, and they are joined to what it was.
func TestSplitAndAbsorb(t *testing.T) {
	w := newWorld(t, false)
	i := w.chunk(t, 100*unit, 10*unit)
	fence := w.chunk(t, 110*unit, 0)
	w.table.Records[fence] = chunks.FenceAt(110*unit, i)
	w.table.Records[i].Next = fence
	rest := w.table.SplitOff(i, 3*unit)
	require.Equal(t, []uint64{100 * unit, 3 * unit, 103 * unit, 7 * unit},
		[]uint64{w.addr(i), w.bytes(i), w.addr(rest), w.bytes(rest)})
	records := w.table.Records
	require.Equal(t, []uint32{rest, i, fence, rest}, []uint32{records[i].Next, records[rest].Prev, records[rest].Next,
		records[fence].Prev})
	w.table.Absorb(i, rest)
	require.Equal(t, []uint64{100 * unit, 10 * unit}, []uint64{w.addr(i), w.bytes(i)})
	require.Equal(t, []uint32{fence, i}, []uint32{records[i].Next, records[fence].Prev})
	require.True(t, records[fence].Fence())
	require.False(t, records[fence].Free())
}

// A live chunk keeps what was requested of it, its id and its holder; a freed one is free or held.
func TestALiveChunkKeepsItsRequest(t *testing.T) {
	for _, tensorFlow := range []bool{false, true} {
		w := newWorld(t, tensorFlow)
		random := rand.New(rand.NewPCG(5, 6))
		for range 500 {
			bytes := (1 + random.Uint64N(1<<20)) * unit
			slack := random.Uint64N(unit)
			if tensorFlow {
				slack = random.Uint64N(bytes)
			}
			addr := (1 + random.Uint64N(1<<30)) * unit
			i := w.chunk(t, addr, bytes)
			id, by := random.Uint64N(chunks.IDMask+1), holder.ID(random.Uint64N(1<<16))
			w.table.Own(i, bytes-slack, id, by)
			c := &w.table.Records[i]
			require.Equal(t, []any{addr, bytes, bytes - slack, id, by, false},
				[]any{c.Addr(), c.Bytes(), w.table.Requested(i), c.ID(), c.Holder(), c.Free()})
			if random.IntN(2) == 0 {
				c.Hold()
				require.True(t, c.Held())
				require.False(t, c.Free())
			}
			c.Release()
			require.True(t, c.Free())
			require.Equal(t, []uint64{addr, bytes}, []uint64{c.Addr(), c.Bytes()})
			w.table.Recycle(i)
		}
	}
}

// A class's chunks stay in order of size and address however they are inserted.
func TestLargeChunksAreSorted(t *testing.T) {
	w := newWorld(t, false)
	random := rand.New(rand.NewPCG(7, 8))
	type place struct{ bytes, addr uint64 }
	var sorted []place
	for range 200 {
		p := place{large + random.Uint64N(20)*unit, (1 + random.Uint64N(1<<30)) * unit}
		sorted = append(sorted, p)
		w.insert(w.chunk(t, p.addr, p.bytes))
	}
	slices.SortFunc(sorted, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.addr, b.addr))
	})
	for _, p := range sorted {
		i := w.bins.BestFit(large)
		require.Equal(t, p, place{w.bytes(i), w.addr(i)})
		w.bins.Remove(i)
	}
}
