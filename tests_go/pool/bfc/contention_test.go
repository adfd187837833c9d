package bfc_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
)

// slowDevice makes the other threads wait behind the one that obtains memory from it.
type slowDevice struct{ *fakedevice.Device }

func (d slowDevice) MemAlloc(bytes uint64) (uint64, error) {
	time.Sleep(3 * time.Millisecond)
	return d.Device.MemAlloc(bytes)
}

// All threads make progress when they find the lock held, for nanoseconds or while the device is slow, and the
// accounting is correct.
func TestThreadsTakeTurns(t *testing.T) {
	const threads, rounds, limit = 16, 300, 64 << 20
	device := slowDevice{fakedevice.New(limit)}
	a := newAllocator(t, suballoc.NewRegions(device, suballoc.Options{LimitBytes: limit, Growth: true}), bfc.Options{})
	var group sync.WaitGroup
	for i := range threads {
		group.Go(func() {
			var held []bfc.Block
			for n := range rounds {
				block, err := a.Allocate(uint64(1 + 100*n + i))
				if err != nil {
					t.Error(err)
					return
				}
				if held = append(held, block); len(held) > 5 {
					if err := a.FreeID(held[0].Addr, held[0].ID); err != nil {
						t.Error(err)
					}
					held = held[1:]
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, a.Check())
	stats := a.Stats()
	require.EqualValues(t, threads*rounds, stats.NumAllocs)
	require.EqualValues(t, threads*5, stats.LiveBlocks)
}

// BenchmarkThreads measures one allocation or free, over all threads, when several share an allocator, and the longest
// one.
func BenchmarkThreads(b *testing.B) {
	for _, threads := range []int{1, 2, 16} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			const limit = 1 << 30
			a, err := bfc.New(suballoc.NewRegions(fakedevice.New(limit), suballoc.Options{LimitBytes: limit}),
				bfc.Options{})
			require.NoError(b, err)
			longest := make([]time.Duration, threads)
			var group sync.WaitGroup
			start := time.Now()
			for i := range threads {
				group.Go(func() {
					last := time.Now()
					for n := range b.N / threads {
						block, err := a.Allocate(4 << 10)
						if err == nil {
							err = a.Free(block.Addr)
						}
						if err != nil {
							b.Error(err)
							return
						}
						if n%16 == 0 {
							now := time.Now()
							longest[i] = max(longest[i], now.Sub(last))
							last = now
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(2*b.N), "ns/op")
			b.ReportMetric(float64(slices.Max(longest).Microseconds()), "longest-us")
			require.NoError(b, a.Close())
		})
	}
}
