package bfc_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/pool/traces"
)

// One iteration of a benchmark replays a whole trace on a new allocator. ns/op is the time of one allocation or one
// free after the warm-up part of the trace, in the best iteration. So -benchtime=1x already measures something.
//
// Other columns: high-MiB is the address space that the trace needed, live-MiB the maximum that was live.

// subject is an allocator under comparison.
type subject interface {
	Allocate(bytes uint64) uint64
	Free(addr uint64)
}

// ours is bfc behind these two calls.
type ours struct{ a *bfc.Allocator }

func (o ours) Allocate(bytes uint64) uint64 {
	block, err := o.a.Allocate(bytes)
	if err != nil {
		panic(err)
	}
	return block.Addr
}

func (o ours) Free(addr uint64) {
	if err := o.a.Free(addr); err != nil {
		panic(err)
	}
}

func newOurs(limitBytes uint64, rule bfc.SplitRule) (subject, func()) {
	device := fakedevice.New(limitBytes)
	regions := suballoc.NewRegions(device, suballoc.Options{LimitBytes: limitBytes})
	a, err := bfc.New(regions, bfc.Options{Split: rule})
	if err != nil {
		panic(err)
	}
	return ours{a}, func() { _ = a.Close() }
}

// onStreams is bfc with several streams in use: all work is on stream 0, or alternates between streams.
type onStreams struct {
	a       *bfc.Allocator
	streams bfc.Stream
	turn    bfc.Stream
}

func (o *onStreams) Allocate(bytes uint64) uint64 {
	if o.turn++; o.turn == o.streams {
		o.turn = 0
	}
	block, err := o.a.AllocateFor(o.turn, bytes, 0)
	if err != nil {
		panic(err)
	}
	return block.Addr
}

func (o *onStreams) Free(addr uint64) {
	if err := o.a.Free(addr); err != nil {
		panic(err)
	}
}

// BenchmarkStreams measures the cost of a second stream that has been used, of four alternating streams whose work is
// done at once, and of four whose work is never done, with twice the memory.
func BenchmarkStreams(b *testing.B) {
	for _, trace := range traces.Laws() {
		for _, c := range []struct {
			name    string
			streams bfc.Stream
			never   bool
		}{{"one-of-two", 1, false}, {"four", 4, false}, {"four-never-done", 4, true}} {
			b.Run(trace.Name+"/"+c.name, func(b *testing.B) {
				benchmarkTrace(b, contender{open: func(limit uint64) (subject, func()) {
					a := newShared(b, 2*limit, max(2, int(c.streams)), &instant{never: c.never})
					return &onStreams{a: a, streams: c.streams}, func() { _ = a.Close() }
				}}, &trace)
			})
		}
	}
}

type contender struct {
	name   string
	window int // operations timed after the warm ones; 0: all
	open   func(limitBytes uint64) (subject, func())
}

func contenders() []contender {
	nothing := func() {}
	return []contender{
		{"exact", 0, func(limit uint64) (subject, func()) { return newOurs(limit, bfc.SplitRule{}) }},
		{"tensorflow-rule", 0,
			func(limit uint64) (subject, func()) { return newOurs(limit, bfc.SplitRule{TensorFlow: true}) }},
		{"tree", 0, func(limit uint64) (subject, func()) { return newTree(fakedevice.Base, limit), nothing }},
		{"list", 2_000, func(limit uint64) (subject, func()) { return newList(fakedevice.Base, limit), nothing }},
	}
}

// replay runs the trace and returns the time of its operations after the warm-up, at most window of them.
func replay(s subject, trace *traces.Trace, window int, addrs []uint64) (elapsed time.Duration, ops int) {
	for _, op := range trace.Ops[:trace.Warm] {
		step(s, op, addrs)
	}
	timed := trace.Ops[trace.Warm:]
	if window > 0 {
		timed = timed[:min(window, len(timed))]
	}
	start := time.Now()
	for _, op := range timed {
		step(s, op, addrs)
	}
	return time.Since(start), len(timed)
}

func step(s subject, op traces.Op, addrs []uint64) {
	if op.Bytes != 0 {
		addrs[op.Block] = s.Allocate(op.Bytes)
	} else {
		s.Free(addrs[op.Block])
	}
}

func benchmarkTrace(b *testing.B, c contender, trace *traces.Trace) {
	addrs := make([]uint64, trace.Blocks)
	best := math.Inf(1)
	for range b.N {
		s, end := c.open(trace.LimitBytes)
		elapsed, ops := replay(s, trace, c.window, addrs)
		end()
		best = min(best, float64(elapsed.Nanoseconds())/float64(ops))
	}
	b.ReportMetric(best, "ns/op")
}

// BenchmarkLaws is the table: six traces, our allocator with both rules, and the two baselines.
func BenchmarkLaws(b *testing.B) {
	for _, trace := range traces.Laws() {
		for _, c := range contenders() {
			b.Run(trace.Name+"/"+c.name, func(b *testing.B) { benchmarkTrace(b, c, &trace) })
		}
	}
}

// BenchmarkTail reports the 99.9th percentile over the whole trace, including the warm-up, the growth of the tables,
// page faults and other load of the machine. It includes the time of reading the clock.
func BenchmarkTail(b *testing.B) {
	for _, trace := range traces.Laws() {
		for _, c := range contenders()[:3] {
			b.Run(trace.Name+"/"+c.name, func(b *testing.B) {
				best := time.Duration(math.MaxInt64)
				for range b.N {
					s, end := c.open(trace.LimitBytes)
					best = min(best, tail(s, &trace))
					end()
				}
				b.ReportMetric(float64(best.Nanoseconds()), "p99.9-ns")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func tail(s subject, trace *traces.Trace) time.Duration {
	addrs, took := make([]uint64, trace.Blocks), make([]time.Duration, len(trace.Ops))
	for i := range took {
		took[i] = 1 // otherwise a page fault here would be counted
	}
	for i := range addrs {
		addrs[i] = 1
	}
	origin := time.Now()
	last := time.Since(origin)
	for i, op := range trace.Ops {
		step(s, op, addrs)
		now := time.Since(origin)
		took[i] = now - last
		last = now
	}
	slices.Sort(took)
	return took[len(took)-1-len(took)/1000]
}

// BenchmarkSlope measures the cost of many live blocks.
func BenchmarkSlope(b *testing.B) {
	for _, live := range []int{1_000, 10_000, 100_000, 1_000_000} {
		trace := traces.Churn("", live, 200_000, 512, 1<<20)
		for _, c := range contenders()[:3] {
			b.Run(fmt.Sprintf("%d-live/%s", live, c.name), func(b *testing.B) { benchmarkTrace(b, c, &trace) })
		}
	}
}

// BenchmarkEqualHoles measures the cost of many free chunks of one size.
func BenchmarkEqualHoles(b *testing.B) {
	for _, live := range []int{1_000, 100_000} {
		trace := traces.Waves("", live, 200_000, 4<<10)
		for _, c := range contenders()[:3] {
			b.Run(fmt.Sprintf("%d-live/%s", live, c.name), func(b *testing.B) { benchmarkTrace(b, c, &trace) })
		}
	}
}

// BenchmarkHighWater reports how much address space each trace needs; its time is meaningless.
func BenchmarkHighWater(b *testing.B) {
	for _, trace := range traces.Laws()[1:] {
		for _, c := range contenders()[:3] {
			b.Run(trace.Name+"/"+c.name, func(b *testing.B) {
				b.ReportMetric(float64(highWater(c, &trace))/(1<<20), "high-MiB")
				b.ReportMetric(float64(trace.PeakBytes)/(1<<20), "live-MiB")
			})
		}
	}
}

func highWater(c contender, trace *traces.Trace) (bytes uint64) {
	s, end := c.open(trace.LimitBytes)
	defer end()
	addrs := make([]uint64, trace.Blocks)
	for _, op := range trace.Ops {
		step(s, op, addrs)
		if op.Bytes != 0 {
			bytes = max(bytes, addrs[op.Block]+op.Bytes-fakedevice.Base)
		}
	}
	return bytes
}

// BenchmarkOpenClose measures the cost of a new allocator.
func BenchmarkOpenClose(b *testing.B) {
	for range b.N {
		s, end := newOurs(80<<30, bfc.SplitRule{})
		s.Free(s.Allocate(1 << 20))
		end()
	}
}

// The baselines must be correct, or the comparison says nothing: list and tree have the same number and sum of free
// pieces, and in the end everything is merged again.
func TestBaselinesAreAllocators(t *testing.T) {
	trace := traces.Churn("", 200, 5_000, 512, 64<<10)
	l, tr := newList(fakedevice.Base, trace.LimitBytes), newTree(fakedevice.Base, trace.LimitBytes)
	for _, s := range []subject{l, tr} {
		addrs, live := make([]uint64, trace.Blocks), map[uint32]bool{}
		for _, op := range trace.Ops {
			step(s, op, addrs)
			live[op.Block] = op.Bytes != 0
		}
		require.Equal(t, sum(l.free), trace.LimitBytes-l.inUse)
		require.Equal(t, sum(tr.freePieces()), trace.LimitBytes-tr.inUse)
		for block, isLive := range live {
			if isLive {
				s.Free(addrs[block])
			}
		}
	}
	whole := []piece{{fakedevice.Base, trace.LimitBytes}}
	require.Equal(t, whole, l.free)
	require.Equal(t, whole, tr.freePieces())
}

func sum(pieces []piece) (bytes uint64) {
	for _, p := range pieces {
		bytes += p.bytes
	}
	return bytes
}

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
