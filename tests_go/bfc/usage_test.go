package bfc_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/bfc"
	"gpuconf/gocore/holder"
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
	one, err := a.AllocateFor(0, 1000, weights)
	require.NoError(t, err)
	two, err := a.AllocateFor(0, 100, state)
	require.NoError(t, err)
	three, err := a.AllocateFor(0, 3000, weights)
	require.NoError(t, err)
	require.NoError(t, a.Free(one.Addr))
	require.Equal(t, bfc.Usage{Bytes: 3328, PeakBytes: 4352, Blocks: 2, Rows: []bfc.HolderUsage{
		{Holder: weights, Bytes: 3072, PeakBytes: 4096, Blocks: 1}, {Holder: state, Bytes: 256, PeakBytes: 256, Blocks: 1},
	}}, a.Usage())

	require.NoError(t, a.FreeID(two.Addr, two.ID))
	a.ClearStats()
	require.Equal(t, []bfc.HolderUsage{{Holder: weights, Bytes: 3072, PeakBytes: 3072, Blocks: 1}}, a.Usage().Rows)
	require.NoError(t, a.FreeOn(three.Addr, 0))
	require.NoError(t, a.Close())
	require.Empty(t, a.Usage().Rows)
}

// A block that other streams use is freed for its holder at once, whatever the streams do.
func TestUsageWithStreams(t *testing.T) {
	w, other := captureWorld(t, 16)
	block, err := w.a.AllocateFor(0, 4096, 9)
	require.NoError(t, err)
	require.NoError(t, w.a.RecordStream(block.Addr, other))
	require.Equal(t, []bfc.HolderUsage{{Holder: 9, Bytes: 4096, PeakBytes: 4096, Blocks: 1}}, w.a.Usage().Rows)
	require.NoError(t, w.a.Free(block.Addr))
	require.Equal(t, []bfc.HolderUsage{{Holder: 9, PeakBytes: 4096}}, w.a.Usage().Rows)
}

// Sixteen threads allocate and free under their own holders and under a common one, while others read the usage: every result adds up.
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
		require.Equal(t, held[row.Holder], row.Bytes, "holder %d", row.Holder)
	}
}
