package bfc_test

import (
	"cmp"
	"encoding/csv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
	"gpuconf/tests_go/pool/traces"
)

const granule = 2 * mib

// counting is a device that only counts: its allocated bytes and its calls.
type counting struct {
	held, peak, next uint64
	calls            int
	sizes            map[uint64]uint64
}

func (d *counting) take(bytes uint64) (uint64, error) {
	d.calls++
	d.next += (bytes/granule + 1) * granule
	d.sizes[d.next] = bytes
	d.held += bytes
	d.peak = max(d.peak, d.held)
	return d.next, nil
}

func (d *counting) give(name uint64) error {
	d.calls++
	d.held -= d.sizes[name]
	delete(d.sizes, name)
	return nil
}

func (d *counting) call() error                                      { d.calls++; return nil }
func (d *counting) MemAlloc(bytes uint64) (uint64, error)            { return d.take(bytes) }
func (d *counting) MemFree(addr uint64) error                        { return d.give(addr) }
func (d *counting) MemCreate(bytes uint64) (uint64, error)           { return d.take(bytes) }
func (d *counting) MemRelease(handle uint64) error                   { return d.give(handle) }
func (d *counting) MemGetAllocationGranularity() (uint64, error)     { return granule, nil }
func (d *counting) MemAddressReserve(uint64, uint64) (uint64, error) { return 1 << 45, nil }
func (d *counting) MemAddressFree(_, _ uint64) error                 { return nil }
func (d *counting) MemMap(_, _, _ uint64) error                      { return d.call() }
func (d *counting) MemUnmap(_, _ uint64) error                       { return d.call() }
func (d *counting) MemSetAccess(_, _ uint64) error                   { return d.call() }

// player replays traces on a pool that stitches.
type player struct {
	*bfc.Allocator
	t       testing.TB
	virtual *suballoc.Virtual
	device  *counting
	live    map[uint32]uint64 // block -> address
	round   int               // calls of the device in the last round
}

// handles are how large the handles of large steps are. What a pool can serve, and where, does not depend on it: each
// of these tests runs with all of them.
var handles = map[string]suballoc.VirtualOptions{
	"usual handles": {},
	"small ones":    {StepBytes: 4 * granule, HandleBytes: 2 * granule},
}

// withHandles runs a test with handles of each size.
func withHandles(t *testing.T, test func(t *testing.T, opts suballoc.VirtualOptions)) {
	for name, opts := range handles {
		t.Run(name, func(t *testing.T) { test(t, opts) })
	}
}

func newPlayer(t testing.TB, limit uint64) *player {
	return newPlayerWith(t, limit, suballoc.VirtualOptions{})
}

func newPlayerWith(t testing.TB, limit uint64, opts suballoc.VirtualOptions) *player {
	opts.LimitBytes = limit
	p := &player{t: t, device: &counting{sizes: map[uint64]uint64{}, next: 1 << 50}, live: map[uint32]uint64{}}

	p.virtual = must.OK(suballoc.NewVirtual(p.device, opts))(t)
	p.Allocator = must.OK(bfc.New(p.virtual, bfc.Options{}))(t)
	return p
}

func (p *player) play(ops []traces.Op) error {
	before := p.device.calls
	for _, o := range ops {
		if o.Bytes == 0 {
			if err := p.Free(p.live[o.Block]); err != nil {
				return err
			}
			delete(p.live, o.Block)
			continue
		}
		b, err := p.Allocate(o.Bytes)
		if err != nil {
			return err
		}
		p.live[o.Block] = b.Addr
	}
	p.round = p.device.calls - before
	return nil
}

func (p *player) end() {
	require.NoError(p.t, p.Check())
	require.NoError(p.t, p.virtual.Check())
	require.Equal(p.t, p.device.held, p.virtual.HeldBytes())
	require.LessOrEqual(p.t, p.device.peak, p.virtual.LimitBytes())
	require.NoError(p.t, p.Close())
	require.NoError(p.t, p.virtual.Close())
	require.Zero(p.t, p.device.held)
}

func upToGranule(bytes uint64) uint64 { return (bytes + granule - 1) / granule * granule }

// The memory that a trace needs, relative to its live peak, and how often memory is moved then, per request of a
// granule or more.
func TestLawsFitIntoLittleMoreThanTheirPeak(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	withHandles(t, testLawsFitIntoLittleMoreThanTheirPeak)
}

func testLawsFitIntoLittleMoreThanTheirPeak(t *testing.T, opts suballoc.VirtualOptions) {
	for _, tt := range []struct {
		trace        traces.Trace
		most         float64 // physical memory, relative to the live peak
		stitches     float64 // of large requests
		withoutAnyAt float64 // physical memory
	}{
		{traces.Transformer(), 1.001, 0.001, 1.02},
		{traces.Random("random-64MiB", 40_000, 64<<20), 1.04, 0.35, 1.25},
		{traces.Churn("churn-8MiB", 1_000, 40_000, 512, 8<<20), 1.12, 0.02, 1.25},
		{traces.Churn("churn-64MiB", 500, 20_000, 512, 64<<20), 1.05, 0.03, 1.35},
	} {
		t.Run(tt.trace.Name, func(t *testing.T) {
			large := 0
			for _, o := range tt.trace.Ops {
				if o.Bytes >= granule {
					large++
				}
			}
			p := newPlayerWith(t, upToGranule(uint64(tt.most*float64(tt.trace.PeakBytes))), opts)
			require.NoError(t, p.play(tt.trace.Ops))
			require.Less(t, float64(p.Stats().Stitches), tt.stitches*float64(large))
			p.end()

			p = newPlayerWith(t, upToGranule(uint64(tt.withoutAnyAt*float64(tt.trace.PeakBytes))), opts)
			require.NoError(t, p.play(tt.trace.Ops))
			if opts.StepBytes == 0 { // a handle that is replaced counts too
				require.Zero(t, p.Stats().Stitches)
			}
			p.end()
		})
	}
}

// A pool that grows in large steps makes few calls of the driver: public measurements say that mapping costs per
// handle.
func TestLargeStepsMakeFewCalls(t *testing.T) {
	const gib = 1 << 30
	p := newPlayer(t, 16*gib)
	for block := range uint32(8) { // so that steps begin and end anywhere
		before := p.device.calls
		require.NoError(t, p.play([]traces.Op{{Block: block, Bytes: gib + uint64(block)*3*mib}}))
		require.LessOrEqual(t, p.device.calls-before, 40, "for the %dth GiB", block)
	}
	t.Logf("%.1f calls per GiB", float64(p.device.calls)/8)
	require.LessOrEqual(t, p.device.calls, 40*8)
	before := p.device.calls
	require.NoError(
		t, p.play([]traces.Op{{Block: 3}, {Block: 8, Bytes: gib}, {Block: 8}, {Block: 3, Bytes: gib + 3*mib}}))
	require.LessOrEqual(t, p.device.calls-before, 200, "a handle is split at most once")
	p.end()
}

// A block that takes a part of what a large one had does not keep the rest from being moved.
func TestASmallBlockDoesNotHoldALargeHandle(t *testing.T) {
	const limit = 1024 * mib
	p := newPlayer(t, limit)
	require.NoError(t, p.play([]traces.Op{{Block: 0, Bytes: 600 * mib}, {Block: 1, Bytes: 2 * mib}, {Block: 0}}))
	require.NoError(t, p.play([]traces.Op{{Block: 2, Bytes: 1 * mib}}), "into the first handle of many granules")
	require.NoError(t, p.play([]traces.Op{{Block: 3, Bytes: limit - 2*mib - 2*mib}}),
		"all the rest of the limit, moved together")
	p.end()
}

// tiling repeatedly cuts a rectangle of lifetimes and granules into blocks: at all times all of the memory is in use,
// and freed memory is never contiguous where the next block would need it.
func tiling(random *rand.Rand, steps, granules int) (ops []traces.Op) {
	type live struct {
		block uint32
		bytes uint64
		end   int
	}
	var now []live
	var next uint32
	for step := range steps {
		free := uint64(granules)
		now = slices.DeleteFunc(now, func(b live) bool {
			if b.end == step {
				ops = append(ops, traces.Op{Block: b.block})
				return true
			}
			free -= b.bytes
			return false
		})
		for free > 0 {
			n := min(free, 1+random.Uint64N(uint64(granules)/3))
			free -= n
			now = append(now, live{next, n, step + 1 + random.IntN(12)})
			ops = append(ops, traces.Op{Block: next, Bytes: n * granule})
			next++
		}
	}
	for _, b := range now {
		ops = append(ops, traces.Op{Block: b.block})
	}
	return ops
}

// Blocks of whole granules fit whenever enough memory is free.
func TestLifetimesWithAKnownOptimum(t *testing.T) { withHandles(t, testLifetimesWithAKnownOptimum) }

func testLifetimesWithAKnownOptimum(t *testing.T, opts suballoc.VirtualOptions) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		granules := 20 + random.IntN(400)
		p := newPlayerWith(t, uint64(granules)*granule, opts)
		require.NoError(t, p.play(tiling(random, 60, granules)))
		require.NotZero(t, p.Stats().Stitches)
		p.end()
	}
}

// With MINIMALLOC=DIR, google/minimalloc's hard problems, with units of 16 KiB, fit into their known optimum.
func TestMiniMallocFitsIntoItsOptimum(t *testing.T) {
	dir := os.Getenv("MINIMALLOC")
	if dir == "" {
		t.Skip("MINIMALLOC is not set: the directory of minimalloc's problems, CSV files with the columns " +
			"id,lower,upper,size")
	}
	files := must.OK(filepath.Glob(filepath.Join(dir, "*.csv")))(t)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			p := newPlayer(t, 1_048_576*16384)
			require.NoError(t, p.play(readLifetimes(t, file, 16384)))
			t.Logf("%d stitches, %d MiB moved", p.Stats().Stitches, p.Stats().StitchedBytes>>20)
			p.end()
		})
	}
}

func readLifetimes(t *testing.T, file string, unit uint64) (ops []traces.Op) {
	f := must.OK(os.Open(file))(t)
	defer f.Close()
	rows := must.OK(csv.NewReader(f).ReadAll())(t)
	type event struct {
		time uint64
		op   traces.Op
	}
	var events []event
	for block, row := range rows[1:] {
		var n [4]uint64
		for i := range n {
			n[i] = must.OK(strconv.ParseUint(row[i], 10, 64))(t)
		}
		events = append(events, event{n[1], traces.Op{Block: uint32(block), Bytes: n[3] * unit}},
			event{n[2], traces.Op{Block: uint32(block)}})
	}
	slices.SortStableFunc(events, func(e, other event) int { // ends come before starts
		return cmp.Or(cmp.Compare(e.time, other.time), cmp.Compare(min(e.op.Bytes, 1), min(other.op.Bytes, 1)))
	})
	for _, e := range events {
		ops = append(ops, e.op)
	}
	return ops
}

// iteration is one training step beside persistent weights: the same each time.
func iteration(random *rand.Rand, first uint32, layers int, mixed bool) (ops []traces.Op) {
	next := first
	alloc := func(bytes uint64) uint32 {
		ops = append(ops, traces.Op{Block: next, Bytes: bytes})
		next++
		return next - 1
	}
	free := func(block uint32) { ops = append(ops, traces.Op{Block: block}) }
	unit := 3*mib + random.Uint64N(13*mib)
	var kept [][]uint32
	for range layers {
		norm := alloc(unit)
		qkv := alloc(3 * unit)
		free(norm)
		scratch := alloc(unit / 2)
		up := alloc(4 * unit)
		free(scratch)
		layer := []uint32{qkv, up, alloc(unit)}
		if mixed {
			for range 5 {
				layer = append(layer, alloc(256+random.Uint64N(random.Uint64N(8*mib)+256)))
			}
		}
		kept = append(kept, layer)
	}
	for _, layer := range slices.Backward(kept) {
		wide := alloc(4 * unit)
		random.Shuffle(len(layer), func(i, j int) { layer[i], layer[j] = layer[j], layer[i] })
		for _, block := range layer {
			narrow := alloc(unit)
			free(block)
			free(narrow)
		}
		free(wide)
	}
	return ops
}

// peakOf returns the maximum live bytes of a trace, counting rounded sizes.
func peakOf(ops []traces.Op) (peak uint64) {
	sizes := map[uint32]uint64{}
	var live uint64
	for _, o := range ops {
		live -= sizes[o.Block]
		sizes[o.Block] = (o.Bytes + 255) / 256 * 256
		live += sizes[o.Block]
		peak = max(peak, live)
	}
	return peak
}

// From the third of identical iterations on, the device is not called: for a transformer with 2 % more memory than its
// live peak, and for mixed sizes with 10 %.
func TestIdenticalIterationsMakeNoCalls(t *testing.T) {
	withHandles(t, testIdenticalIterationsMakeNoCalls)
}

func testIdenticalIterationsMakeNoCalls(t *testing.T, opts suballoc.VirtualOptions) {
	for name, tt := range map[string]struct {
		mixed bool
		slack float64
	}{"transformer": {false, 1.02}, "mixed sizes": {true, 1.10}} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(30) {
				random := rand.New(rand.NewPCG(seed, 2))
				var weights []traces.Op
				for i := range uint32(12) {
					weights = append(weights, traces.Op{Block: i, Bytes: 1 + random.Uint64N(100*mib)})
				}
				step := iteration(random, 12, 12, tt.mixed)
				other := iteration(random, 12, 9, tt.mixed) // of another size, run before
				limit := upToGranule(
					uint64(tt.slack * float64(max(peakOf(slices.Concat(weights, step)),
						peakOf(slices.Concat(weights, other))))))
				p := newPlayerWith(t, limit, opts)
				require.NoError(t, p.play(slices.Concat(weights, other)))
				for round := range 10 {
					require.NoError(t, p.play(step))
					if round >= 2 {
						require.Zero(t, p.round, "seed %d, round %d", seed, round)
					}
				}
				p.end()
			}
		})
	}
}

// Stitched memory is like any other: free it, request it again, and the device is not called.
func TestAStitchLasts(t *testing.T) {
	p := newPlayer(t, 8*granule)
	require.NoError(t, p.play([]traces.Op{{Block: 0, Bytes: granule}, {Block: 1, Bytes: 2 * granule},
		{Block: 2, Bytes: 3 * granule}, {Block: 3, Bytes: granule}, {Block: 4, Bytes: granule}}))
	require.NoError(t, p.play([]traces.Op{{Block: 0}, {Block: 2}, {Block: 4}, {Block: 5, Bytes: 5 * granule}}))
	require.NotZero(t, p.round)
	require.Equal(t, uint64(1), p.Stats().Stitches)
	for range 3 {
		require.NoError(t, p.play([]traces.Op{{Block: 5}, {Block: 5, Bytes: 5 * granule}}))
		require.Zero(t, p.round)
		require.NoError(
			t, p.play([]traces.Op{{Block: 5}, {Block: 6, Bytes: granule}, {Block: 7, Bytes: 4*granule - 256},
				{Block: 6}, {Block: 7}, {Block: 5, Bytes: 5 * granule}}))
		require.Zero(t, p.round)
	}
	p.end()
}

// emptying is a random sequence that starts and ends with an empty pool.
func emptying(random *rand.Rand, steps int, most uint64) (ops []traces.Op) {
	var live []uint32
	for block := range uint32(steps) {
		if len(live) > 0 && random.IntN(100) < 45 {
			at := random.IntN(len(live))
			ops = append(ops, traces.Op{Block: live[at]})
			live = slices.Delete(live, at, at+1)
		}
		bytes := 1 + random.Uint64N(most)
		if random.IntN(2) == 0 {
			bytes = 1 + random.Uint64N(granule)
		}
		ops = append(ops, traces.Op{Block: block, Bytes: bytes})
		live = append(live, block)
		if random.IntN(40) == 0 { // empty in the middle
			for _, b := range live {
				ops = append(ops, traces.Op{Block: b})
			}
			live = nil
		}
	}
	for _, i := range random.Perm(len(live)) {
		ops = append(ops, traces.Op{Block: live[i]})
	}
	return ops
}

// A sequence that a new pool serves is served again each time later, at the minimum limit at which it was served at
// all, whatever else was served in between.
func TestWhatWasServedOnceIsServedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	withHandles(t, testWhatWasServedOnceIsServedAgain)
}

func testWhatWasServedOnceIsServedAgain(t *testing.T, opts suballoc.VirtualOptions) {
	served := func(ops []traces.Op, limit uint64) bool {
		p := newPlayerWith(t, limit, opts)
		defer p.end()
		return p.play(ops) == nil
	}
	stitched, calls := 0, 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		ops := emptying(random, 30+random.IntN(100), granule*(1+random.Uint64N(12)))
		low, high := peakOf(ops)/2, 2*peakOf(ops)+8*granule // in bytes, not granules: the rest beside them counts too
		for high-low > 256 {
			if middle := (low + high) / 2; served(ops, middle) {
				high = middle
			} else {
				low = middle
			}
		}
		p := newPlayerWith(t, high, opts)
		rounds := 40
		if seed == 0 {
			rounds = 1000
		}
		for round := range rounds {
			require.NoError(t, p.play(ops), "seed %d, round %d", seed, round)
			if other := emptying(random, 10, granule*4); round%3 == 2 && p.play(other) != nil {
				for _, addr := range p.live {
					require.NoError(t, p.Free(addr))
				}
				clear(p.live)
			}
		}
		require.NoError(t, p.Check())
		stitched += int(p.Stats().Stitches)
		calls += p.round
		p.end()
	}
	require.NotZero(t, stitched)
}

// A round that moved nothing is followed by rounds without a device call.
func TestRoundsFromEmptyToEmptyMakeNoCalls(t *testing.T) {
	withHandles(t, testRoundsFromEmptyToEmptyMakeNoCalls)
}

func testRoundsFromEmptyToEmptyMakeNoCalls(t *testing.T, opts suballoc.VirtualOptions) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 4))
		ops := emptying(random, 200, 10*granule)
		p := newPlayerWith(t, upToGranule(peakOf(ops)*5/4)+8*granule, opts)
		for round := range 5 {
			require.NoError(t, p.play(ops))
			if round > 0 && p.Stats().Stitches == 0 {
				require.Zero(t, p.round, "seed %d, round %d", seed, round)
			}
		}
		p.end()
	}
}

// TensorFlow's rule over its regions, and exact splitting with stitching, at the same limit: wherever they first
// differ, stitching still serves the request.
func TestStitchingServesWhereTensorFlowFails(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	withHandles(t, testStitchingServesWhereTensorFlowFails)
}

func testStitchingServesWhereTensorFlowFails(t *testing.T, opts suballoc.VirtualOptions) {
	differ := 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 5))
		limit := (30 + random.Uint64N(100)) * granule
		most := limit / (2 + random.Uint64N(20))
		device := fakedevice.New(1 << 60)
		a := must.OK(bfc.New(suballoc.NewRegions(device, suballoc.Options{LimitBytes: limit, Growth: seed%2 == 0}),
			bfc.Options{Split: bfc.SplitRule{TensorFlow: true}, GarbageCollect: true}))(t)
		p := newPlayerWith(t, limit, opts)
		var live [][2]uint64
		for range 3000 {
			if len(live) > 0 && random.IntN(100) < 48 {
				at := random.IntN(len(live))
				require.NoError(t, a.Free(live[at][0]))
				require.NoError(t, p.Free(live[at][1]))
				live = slices.Delete(live, at, at+1)
				continue
			}
			bytes := 1 + random.Uint64N(most)
			theirs, failure := a.Allocate(bytes)
			ours, ourFailure := p.Allocate(bytes)
			if failure != nil && ourFailure != nil {
				continue // one of the two frees more later
			}
			if failure != nil || ourFailure != nil {
				require.NoError(t, ourFailure, "seed %d", seed)
				differ++
				break
			}
			live = append(live, [2]uint64{theirs.Addr, ours.Addr})
		}
		require.NoError(t, a.Close())
		p.end()
	}
	require.Greater(t, differ, 200)
}

// Each device call of a stitch fails once: the request is served, or fails; every live block keeps its contents,
// nothing is lost, and the pool keeps working.
func TestEveryCallOfAStitchFailsOnce(t *testing.T) {
	for name, persistent := range map[string]bool{"once": false, "from then on": true} {
		t.Run(name, func(t *testing.T) {
			failures, served := 0, 0
			for at := 0; ; at++ {
				failed, ok := stitchWithFailure(t, at, persistent)
				if !failed {
					break
				}
				failures++
				if ok {
					served++
				}
			}
			require.Greater(t, failures, 8)
			t.Logf("%d calls, of which %d did not matter", failures, served)
		})
	}
}

func stitchWithFailure(t *testing.T, at int, persistent bool) (failed, served bool) {
	const granule = 2048
	device := fakedevice.NewVirtual(1 << 40)
	device.GranuleBytes = granule
	v := must.OK(suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: 12*granule + 300}))(t)
	a := must.OK(bfc.New(v, bfc.Options{}))(t)
	var blocks []bfc.Block
	for i := range 10 {
		blocks = append(blocks, allocate(t, a, granule+uint64(i%2)*granule/4))
		device.Write(blocks[i].Addr, blocks[i].Bytes, blocks[i].ID)
	}
	var kept []bfc.Block
	for i, b := range blocks {
		if i%3 == 0 {
			kept = append(kept, b)
		} else {
			require.NoError(t, a.Free(b.Addr))
		}
	}
	check := func() {
		require.NoError(t, a.Check())
		require.NoError(t, v.Check())
		require.Equal(t, device.LiveBytes, v.HeldBytes())
		require.LessOrEqual(t, device.PeakBytes, v.LimitBytes())
		for _, b := range kept {
			require.True(t, device.Holds(b.Addr, b.Bytes, b.ID))
		}
	}
	device.TakeOps()
	calls := 0
	device.FailOp = func(string) error {
		calls++
		if calls-1 == at || persistent && calls > at {
			failed = true
			return fakedevice.ErrInjected
		}
		return nil
	}
	big, err := a.Allocate(5 * granule)
	device.FailOp = nil
	check()
	if served = err == nil; served {
		device.Write(big.Addr, big.Bytes, big.ID)
		kept = append(kept, big)
	} else {
		require.ErrorContains(t, err, fakedevice.ErrInjected.Error())
		require.ErrorContains(t, err, " out of memory")
		big = allocate(t, a, 5*granule)
		device.Write(big.Addr, big.Bytes, big.ID)
		kept = append(kept, big)
	}
	require.NotContains(t, strings.Join(device.TakeOps(), " "), "alloc")
	check()
	for _, b := range kept {
		require.NoError(t, a.Free(b.Addr))
	}
	require.NoError(t, a.Close())
	require.NoError(t, v.Close())
	require.NoError(t, device.Clean())
	return failed, served
}

// If blocks are scattered over the whole address range, no gap may be long enough, although the granules exist.
func TestARangeMayBeTooShort(t *testing.T) {
	device := fakedevice.NewVirtual(1 << 40)
	v, err := suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: 4 * granule, RangeBytes: 4 * granule})
	require.NoError(t, err)
	a := must.OK(bfc.New(v, bfc.Options{}))(t)
	var blocks []bfc.Block
	for range 4 {
		blocks = append(blocks, allocate(t, a, granule))
	}
	require.NoError(t, a.Free(blocks[1].Addr))
	require.NoError(t, a.Free(blocks[3].Addr))
	_, err = a.Allocate(2 * granule)
	require.ErrorContains(t, err, "it is fragmented, and the address range has no place left to move it to")
	require.NoError(t, a.Free(blocks[2].Addr))
	allocate(t, a, 3*granule)
	require.NoError(t, a.Check())
	require.NoError(t, a.Close())
	require.NoError(t, v.Close())
}

// The error reports the block that keeps a granule from being moved.
func TestPinnedGranulesAreTold(t *testing.T) {
	p := newPlayer(t, 8*granule)
	var ops []traces.Op
	for i := range uint32(8) {
		ops = append(ops, traces.Op{Block: 2 * i, Bytes: granule - 256}, traces.Op{Block: 2*i + 1, Bytes: 256})
	}
	for i := range uint32(7) {
		ops = append(ops, traces.Op{Block: 2 * i})
	}
	require.NoError(t, p.play(append(ops, traces.Op{Block: 1})))
	_, err := p.Allocate(4 * granule)
	var oom *bfc.OutOfMemory
	require.ErrorAs(t, err, &oom)
	require.Equal(t, bfc.Fragmented, oom.Cause)
	require.Equal(t, uint64(granule), oom.Movable)
	require.ErrorContains(t, err, "only 2.00MiB (2097152 bytes) are in whole granules, which can be moved together")
	p.end()
}
