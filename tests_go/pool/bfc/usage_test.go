package bfc_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/figures"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

// addUp requires that the rows of a usage add up to its totals.
func addUp(t require.TestingT, u bfc.Usage) {
	var bytes, blocks, peaks uint64
	for _, row := range u.Rows {
		bytes, blocks, peaks = bytes+row.Bytes, blocks+row.Blocks, peaks+row.PeakBytes
		require.GreaterOrEqual(t, row.PeakBytes, row.Bytes)
	}
	require.Equal(t, []uint64{u.Bytes, u.Blocks}, []uint64{bytes, blocks})
	require.GreaterOrEqual(t, peaks, u.PeakBytes)
}

func TestUsageByHolder(t *testing.T) {
	a := pool(t, mib, bfc.Options{})
	weights, state := holder.Of(holder.Torch, 1), holder.Of(holder.CuPy, 2)
	one := must.OK(a.AllocateFor(0, 1000, weights))(t)
	two := must.OK(a.AllocateFor(0, 100, state))(t)
	three := must.OK(a.AllocateFor(0, 3000, weights))(t)
	require.NoError(t, a.Free(one.Addr))
	require.Equal(t, bfc.Usage{Bytes: 3328, PeakBytes: 4352, Blocks: 2, Rows: []bfc.UsageRow{
		{Library: holder.Torch, Tag: 1, Bytes: 3072, PeakBytes: 4096, Blocks: 1},
		{Library: holder.CuPy, Tag: 2, Bytes: 256, PeakBytes: 256, Blocks: 1},
	}}, a.Usage())

	require.NoError(t, a.FreeID(two.Addr, two.ID))
	a.ClearStats()
	require.Equal(t, []bfc.UsageRow{{Library: holder.Torch, Tag: 1, Bytes: 3072, PeakBytes: 3072, Blocks: 1}},
		a.Usage().Rows)
	require.NoError(t, a.FreeOn(three.Addr, 0))
	require.NoError(t, a.Close())
	require.Empty(t, a.Usage().Rows)
}

// A block that other streams use is freed for its holder at once, whatever the streams do.
func TestUsageWithStreams(t *testing.T) {
	w, other := captureWorld(t, 16)
	block := must.OK(w.a.AllocateFor(0, 4096, 9))(t)
	require.NoError(t, w.a.RecordStream(block.Addr, other))
	require.Equal(t, []bfc.UsageRow{{Library: 1, Tag: 1, Bytes: 4096, PeakBytes: 4096, Blocks: 1}}, w.a.Usage().Rows)
	require.NoError(t, w.a.Free(block.Addr))
	require.Equal(t, []bfc.UsageRow{{Library: 1, Tag: 1, PeakBytes: 4096}}, w.a.Usage().Rows)
}

// Sixteen threads allocate and free under their own holders and under a common one, while others read the usage: every
// result adds up.
func TestUsageIsExactUnderSixteenThreads(t *testing.T) {
	const limit = 32 * mib
	a := pool(t, limit, bfc.Options{})
	var workers, lookers sync.WaitGroup
	over := make(chan struct{})
	held := make([]uint64, 17) // by holder; each worker's own entry is written by it alone
	for worker := range 16 {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			var live []bfc.Block
			for range 4000 {
				by := holder.ID(0)
				own := rng.IntN(4) > 0
				if own {
					by = holder.ID(1 + worker)
				}
				block, err := a.AllocateFor(0, 1+rng.Uint64N(50_000), by)
				switch {
				case err != nil:
					outOfMemory(t, err)
				case own && rng.IntN(8) == 0:
					held[1+worker] += block.Bytes // stays
				default:
					live = append(live, block)
				}
				for len(live) > 0 && (err != nil || len(live) > 8) {
					last := live[len(live)-1]
					live = live[:len(live)-1]
					if a.FreeID(last.Addr, last.ID) != nil {
						t.Error("a block was lost")
					}
				}
			}
			for _, block := range live {
				if a.Free(block.Addr) != nil {
					t.Error("a block was lost")
				}
			}
		})
	}
	lookers.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			id, before := a.StartPeak()
			addUp(t, before)
			addUp(t, a.Usage())
			after, ok := a.StopPeak(id)
			if !ok || after.Bytes > limit {
				t.Errorf("%v, %v", after, ok)
			}
			addUp(t, after)
		}
	})
	workers.Wait()
	close(over)
	lookers.Wait()
	require.NoError(t, a.Check())
	u := a.Usage()
	addUp(t, u)
	require.Equal(t, a.Stats().BytesInUse, u.Bytes)
	require.Equal(t, a.Stats().LiveBlocks, u.Blocks)
	for _, row := range u.Rows {
		require.Equal(t, held[holder.Of(row.Library, row.Tag)], row.Bytes, "%s %s", row.Library, row.Tag)
	}
}

func outOfMemoryOf(t *testing.T, a *bfc.Allocator) *bfc.OutOfMemory {
	_, err := a.Allocate(1 << 40)
	var oom *bfc.OutOfMemory
	require.ErrorAs(t, err, &oom)
	return oom
}

// The report lists the five largest holders, and the sum of the others.
func TestOutOfMemoryByHolder(t *testing.T) {
	a := pool(t, 8*mib, bfc.Options{})
	require.Empty(t, outOfMemoryOf(t, a).HeldBy())
	for i := range uint64(8) {
		for range 2 {
			_, err := a.AllocateFor(0, 1024*(i+1), holder.Of(holder.Numba, holder.Tag(1000+i))) // tags without a name
			require.NoError(t, err)
		}
	}
	require.NoError(t, a.Free(must.OK(a.AllocateFor(0, 4*mib, holder.Of(holder.CuPy, 0)))(t).Addr))
	tag := must.OK(holder.Intern("weights"))(t)
	must.OK(a.AllocateFor(0, mib, holder.Of(holder.Torch, tag)))(t)
	require.Equal(t, []string{
		"torch, tag weights: 1.00MiB (1048576 bytes) in 1 block",
		"numba, untagged: 16.0KiB (16384 bytes) in 2 blocks",
		"numba, untagged: 14.0KiB (14336 bytes) in 2 blocks",
		"numba, untagged: 12.0KiB (12288 bytes) in 2 blocks",
		"numba, untagged: 10.0KiB (10240 bytes) in 2 blocks",
		"4 others: 20.0KiB (20480 bytes) in 8 blocks",
	}, outOfMemoryOf(t, a).HeldBy())
}

// While a recording has stacks, holders are split by the innermost call in the program's own code.
func TestOutOfMemoryByCallSite(t *testing.T) {
	var site uint32
	sites := trace.NewSites(func() uint32 { return site })
	r := must.OK(trace.NewRecorder(10, sites))(t)
	a := pool(t, 8*mib, bfc.Options{})
	before := allocate(t, a, 512)
	require.NoError(t, a.Record(r, 0))
	for _, text := range []string{"a.py\x003\x00f\x00", "/site-packages/x.py\x001\x00g\x00a.py\x003\x00f\x00",
		"b.py\x007\x00h\x00"} {
		site = sites.Add(text)
		for range 2 {
			must.OK(a.AllocateFor(0, 1024, holder.Of(holder.Torch, 0)))(t)
		}
	}
	want := []string{
		"torch, untagged: 4.0KiB (4096 bytes) in 4 blocks, allocated at a.py:3 (f)",
		"torch, untagged: 2.0KiB (2048 bytes) in 2 blocks, allocated at b.py:7 (h)",
		"c, untagged: 512 bytes in 1 block",
	}
	require.Equal(t, want, outOfMemoryOf(t, a).HeldBy())
	require.Equal(t, uint32(0), a.MemoryMap().Regions[0].Chunks[0].Site)
	require.Equal(t, site, a.StopRecording().Regions[0].Chunks[6].Site)
	require.Len(t, outOfMemoryOf(t, a).HeldBy(), 2, "by holder only")
	require.NoError(t, a.Free(before.Addr))
	require.NoError(t, r.Close())
}

// What others read is exact after each call, by library, whatever the tags, streams and places.
func TestThePublishedFiguresFollowTheAllocator(t *testing.T) {
	w, other := captureWorld(t, 80)
	torch, tagged, cupy := holder.Of(holder.Torch, 0), holder.Of(holder.Torch, 7), holder.Of(holder.CuPy, 1)
	var blocks []bfc.Block
	take := func(s bfc.Stream, bytes uint64, by holder.ID) {
		blocks = append(blocks, must.OK(w.a.AllocateFor(s, bytes, by))(t))
	}
	take(0, 1000, torch)

	var place figures.Pool
	libraries := func() map[holder.Library]uint64 {
		require.NoError(t, w.a.Check())
		found := map[holder.Library]uint64{}
		for library, bytes := range place.Libraries {
			if bytes > 0 {
				found[holder.Library(library)] = bytes
			}
		}
		return found
	}
	w.a.Publish(&place)
	require.Equal(t, map[holder.Library]uint64{holder.Torch: 1024}, libraries(), "what is in use already counts")
	take(0, 5000, tagged)
	take(0, 256, cupy)
	require.Equal(t, map[holder.Library]uint64{holder.Torch: 1024 + 5120, holder.CuPy: 256}, libraries())
	require.NoError(t, w.a.RecordStream(blocks[1].Addr, other)) // from here on streams share the pool
	take(other, 512, holder.Of(holder.Numba, 0))
	require.NoError(t, w.a.Free(blocks[1].Addr))
	require.Equal(t, map[holder.Library]uint64{holder.Torch: 1024, holder.CuPy: 256, holder.Numba: 512}, libraries())
	s := w.a.Stats()
	require.Equal(t, []uint64{s.BytesInUse, s.PeakBytesInUse, s.BytesLimit, s.BytesReserved},
		[]uint64{place.InUse(), place.Peak, place.Limit, place.Reserved})

	var elsewhere figures.Pool
	w.a.Publish(&elsewhere)
	require.Equal(t, place, elsewhere)
	for _, block := range []bfc.Block{blocks[0], blocks[2], blocks[3]} {
		require.NoError(t, w.a.Free(block.Addr))
	}
	require.Equal(t, s.BytesInUse, place.InUse(), "the earlier place is not written any more")
	require.Zero(t, elsewhere.InUse())
	w.a.Publish(nil)
	take(0, 1000, torch)
	require.Zero(t, elsewhere.InUse())
	require.NoError(t, w.a.Free(blocks[4].Addr))
}

func unwatched(t *testing.T) (w *world, take func(s bfc.Stream) bfc.Block) {
	w = newWorld(t, suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: 80 * 256}), bfc.Options{})
	return w, func(s bfc.Stream) bfc.Block {
		return must.OK(w.a.AllocateFor(s, 1024, holder.Of(holder.Torch, 0)))(t)
	}
}

// Another process must not read figures of an allocator that is closed.
func TestClosingEndsThePublishedFigures(t *testing.T) {
	w, take := unwatched(t)
	block := take(0)
	var place figures.Pool
	w.a.Publish(&place)
	require.NoError(t, w.a.Free(block.Addr))
	require.NotZero(t, place.Limit)
	require.NotZero(t, place.Reserved)
	require.NoError(t, w.a.Close())
	require.Equal(t, figures.Pool{}, place)
}

// A caller that must not wait is refused once streams share the pool: a free may queue a mark in a stream then.
func TestTryFreeIDRefusesInSharedMode(t *testing.T) {
	w, take := unwatched(t)
	first, second := take(0), take(0)
	require.True(t, must.OK(w.a.TryFreeID(first.Addr, first.ID))(t))
	third := take(w.newStream())
	require.False(t, must.OK(w.a.TryFreeID(second.Addr, second.ID))(t))
	for _, block := range []bfc.Block{second, third} {
		require.NoError(t, w.a.Free(block.Addr), "it is still there")
	}
	require.NoError(t, w.a.Close())
}
