package bfc_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

const mib = 1 << 20

// pool returns an allocator that reserves its whole limit at once, on a device that has enough memory.
func pool(t testing.TB, limitBytes uint64, opts bfc.Options) *bfc.Allocator {
	return newAllocator(t, suballoc.NewRegions(fakedevice.New(1<<63), suballoc.Options{LimitBytes: limitBytes}), opts)
}

func allocate(t testing.TB, a *bfc.Allocator, bytes uint64) bfc.Block {
	return must.OK(a.Allocate(bytes))(t)
}

// Each row lays out a pool of 64 KiB block by block, frees some blocks, and requests one more.
func TestPlacement(t *testing.T) {
	tensorFlow := bfc.SplitRule{TensorFlow: true}
	tests := map[string]struct {
		rule   bfc.SplitRule
		layout []uint64
		free   []int
		ask    uint64
		at     uint64 // from the start of the pool
		bytes  uint64
		left   string // free chunks
	}{
		"one byte takes 256": {ask: 1, bytes: 256, left: "0x100/65280"},
		"a whole pool":       {ask: 65536, bytes: 65536, left: "-"},
		"the exact hole before the large rest": {layout: []uint64{256, 512, 256}, free: []int{1}, ask: 512,
			at: 256, bytes: 512, left: "0x400/64512"},
		"the smallest hole that fits": {layout: []uint64{1024, 256, 768, 256, 512, 256},
			free: []int{0, 2, 4}, ask: 600, at: 1280, bytes: 768, left: "0x0/1024,0x900/512,0xc00/62464"},
		"the lowest of equal holes": {layout: []uint64{256, 256, 256, 256, 256, 256},
			free: []int{4, 0, 2}, ask: 256, at: 0, bytes: 256, left: "0x200/256,0x400/256,0x600/64000"},
		"the lowest of four, freed first": {layout: []uint64{256, 256, 256, 256, 256, 256, 256, 256},
			free: []int{0, 2, 4, 6}, ask: 256, at: 0, bytes: 256, left: "0x200/256,0x400/256,0x600/256,0x800/63488"},
		"neighbors join on both sides": {layout: []uint64{256, 256, 256, 256}, free: []int{0, 2, 1},
			ask: 768, at: 0, bytes: 768, left: "0x400/64512"},
		"exact rule splits one unit off": {layout: []uint64{1024, 256}, free: []int{0}, ask: 768, at: 0,
			bytes: 768, left: "0x300/256,0x500/64256"},
		"TensorFlow's rule keeps a rest below half": {rule: tensorFlow, layout: []uint64{1024, 256}, free: []int{0},
			ask: 768, at: 0, bytes: 1024, left: "0x500/64256"},
		"TensorFlow's rule splits at twice": {rule: tensorFlow, layout: []uint64{1024, 256}, free: []int{0},
			ask: 512, at: 0, bytes: 512, left: "0x200/512,0x500/64256"},
		"a fraction replaces the 128 MiB": {
			rule: bfc.SplitRule{TensorFlow: true, FragmentationFraction: 0.25}, ask: 48 << 10, bytes: 48 << 10,
			left: "0xc000/16384"},
		"a rest below the fraction stays": {
			rule: bfc.SplitRule{TensorFlow: true, FragmentationFraction: 0.26}, ask: 48 << 10, bytes: 65536, left: "-"},
		"the fraction can be all of the limit": {rule: bfc.SplitRule{TensorFlow: true, FragmentationFraction: 1},
			ask: 48 << 10, bytes: 65536, left: "-"},
		"a fraction below one byte splits at all": {
			rule: bfc.SplitRule{TensorFlow: true, FragmentationFraction: 1e-9}, ask: 65280, bytes: 65280,
			left: "0xff00/256"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := pool(t, 65536, bfc.Options{Split: tt.rule})
			var blocks []bfc.Block
			for _, bytes := range tt.layout {
				blocks = append(blocks, allocate(t, a, bytes))
			}
			for _, i := range tt.free {
				require.NoError(t, a.Free(blocks[i].Addr))
			}
			got := allocate(t, a, tt.ask)
			require.Equal(t, bfc.Block{Addr: fakedevice.Base + tt.at, Bytes: tt.bytes, ID: uint64(len(tt.layout)) + 1},
				got)
			require.Equal(t, tt.left, freeChunks(a))
			chunkBytes, requested, ok := a.Size(got.Addr)
			require.Equal(t, []any{tt.bytes, tt.ask, true}, []any{chunkBytes, requested, ok})
			require.NoError(t, a.Check())
		})
	}
}

// The record of a block keeps how much of its chunk was not requested in 40 bits.
func TestTheRestOfAHugeChunk(t *testing.T) {
	const tib = 1 << 40
	for name, tt := range map[string]struct{ ask, bytes uint64 }{
		"half a TiB stays":  {ask: 5<<39 + 123, bytes: 3 * tib},
		"a byte and 256":    {ask: 3*tib - 257, bytes: 3 * tib},
		"1.4 TiB are split": {ask: 16 * tib / 10, bytes: (16*tib/10 + 255) / 256 * 256},
	} {
		t.Run(name, func(t *testing.T) {
			a := pool(t, 3*tib, bfc.Options{Split: bfc.SplitRule{TensorFlow: true, FragmentationFraction: 1}})
			got := allocate(t, a, tt.ask)
			chunkBytes, requested, ok := a.Size(got.Addr)
			require.Equal(t, []any{tt.bytes, tt.ask, true}, []any{chunkBytes, requested, ok})
			require.Equal(t, tt.ask, a.Stats().RequestedBytesInUse)
			require.NoError(t, a.Check())
			require.NoError(t, a.Free(got.Addr))
			require.Zero(t, a.Stats().RequestedBytesInUse)
			require.NoError(t, a.Check())
		})
	}
}

// Large chunks share classes; best fit must not notice. The free chunks of a pool of 1 TiB are on both sides of every
// class border.
func TestBestFitAmongLargeChunks(t *testing.T) {
	for name, rule := range map[string]bfc.SplitRule{"exact": {},
		"TensorFlow": {TensorFlow: true, FragmentationFraction: 1e-13}} {
		t.Run(name, func(t *testing.T) {
			a := pool(t, 1<<40, bfc.Options{Split: rule})
			sizes := []uint64{5 << 30, 4<<30 + 512, 64*mib - 256, 4<<30 + 256, 64 * mib, 8 << 30, 64*mib + 256, 4 << 30,
				63 * mib, 64 * mib}
			var holes []bfc.Block
			for _, bytes := range sizes {
				holes = append(holes, allocate(t, a, bytes))
				allocate(t, a, 256) // keeps the holes apart
			}
			for _, hole := range holes {
				require.NoError(t, a.Free(hole.Addr))
				require.NoError(t, a.Check())
			}
			for _, i := range []int{8, 2, 4, 9, 6, 7, 3, 1, 0, 5} { // ascending size, then address
				got := allocate(t, a, holes[i].Bytes-1)
				require.Equal(t, holes[i].Addr, got.Addr, "hole %d", i)
				require.NoError(t, a.Check())
			}
		})
	}
}

// Idle regions stay if releasing them would not make room.
func TestIdleRegionsStayInVain(t *testing.T) {
	device := fakedevice.New(1 << 30)
	sub := suballoc.NewRegions(device, suballoc.Options{LimitBytes: 6 * mib, Growth: true})
	a := newAllocator(t, sub, bfc.Options{GarbageCollect: true})
	first := allocate(t, a, 2*mib)
	allocate(t, a, 4*mib)
	require.NoError(t, a.Free(first.Addr))
	device.TakeCalls()
	require.Equal(t, bfc.LimitReached, outOfMemory(t, must.Err(a.Allocate(2*mib+256))).Cause)
	require.Empty(t, device.TakeCalls())
}

// The pool shrinks if the device has less memory than before; its peak stays.
func TestPeakOfThePool(t *testing.T) {
	device := fakedevice.New(1 << 30)
	sub := suballoc.NewRegions(device, suballoc.Options{LimitBytes: 7 * mib, Growth: true})
	a := newAllocator(t, sub, bfc.Options{GarbageCollect: true})
	first, second := allocate(t, a, 2*mib), allocate(t, a, 4*mib)
	require.NoError(t, a.Free(first.Addr))
	require.NoError(t, a.Free(second.Addr))
	device.CapacityBytes = 5*mib + 512<<10
	allocate(t, a, 5*mib)
	s := a.Stats()
	require.Less(t, s.BytesReserved, uint64(6*mib))
	require.Equal(t, uint64(6*mib), s.PeakBytesReserved)
}

func TestNoDuplicatesAmongManySizes(t *testing.T) {
	a := pool(t, 1<<30, bfc.Options{Split: bfc.SplitRule{TensorFlow: true}})
	seen := map[uint64]bool{}
	for bytes := uint64(1); bytes < 1024; bytes++ {
		block := allocate(t, a, bytes)
		require.False(t, seen[block.Addr])
		seen[block.Addr] = true
	}
	s := a.Stats()
	require.Equal(t, []uint64{1023, 654336, 654336, 1024}, []uint64{s.NumAllocs, s.BytesInUse, s.PeakBytesInUse,
		s.LargestAllocSize})
	for addr := range seen {
		require.NoError(t, a.Free(addr))
	}
	s = a.Stats()
	require.Equal(t, []uint64{1023, 0, 654336, 1024}, []uint64{s.NumAllocs, s.BytesInUse, s.PeakBytesInUse,
		s.LargestAllocSize})
	require.NoError(t, a.Check())
}

func TestCoalescingLeavesNothingBehind(t *testing.T) {
	a := pool(t, 1<<30, bfc.Options{Split: bfc.SplitRule{TensorFlow: true}})
	first := allocate(t, a, 4096)
	require.NoError(t, a.Free(first.Addr))
	for range 1024 {
		var blocks []bfc.Block
		for _, bytes := range []uint64{4096, 8 * mib, 16384, 40 * mib} {
			blocks = append(blocks, allocate(t, a, bytes))
		}
		for _, b := range blocks {
			require.NoError(t, a.Free(b.Addr))
		}
	}
	s := a.Stats()
	require.Equal(t, []uint64{4097, 0, 50_352_128, 41_943_040}, []uint64{s.NumAllocs, s.BytesInUse, s.PeakBytesInUse,
		s.LargestAllocSize})
	require.Equal(t, first.Addr, allocate(t, a, 4096).Addr)
}

func TestClearStats(t *testing.T) {
	a := pool(t, mib, bfc.Options{})
	b := allocate(t, a, 4096)
	allocate(t, a, 100)
	require.NoError(t, a.Free(b.Addr))
	before := a.Stats()
	a.ClearStats()
	want := before
	want.NumAllocs, want.LargestAllocSize, want.PeakBytesInUse = 0, 0, 256
	require.Equal(t, want, a.Stats())
}

func TestPeakMeasurementsAreIndependent(t *testing.T) {
	a := pool(t, mib, bfc.Options{})
	base := allocate(t, a, 1024)
	outer, _ := a.StartPeak()
	high := allocate(t, a, 8192)
	require.NoError(t, a.Free(high.Addr))
	inner, _ := a.StartPeak()
	low := allocate(t, a, 2048)
	a.ClearStats() // does not affect open measurements
	require.NoError(t, a.Free(low.Addr))
	require.NoError(t, a.Free(base.Addr))
	late, _ := a.StartPeak()

	for _, want := range []struct {
		id   bfc.PeakID
		peak uint64
	}{{outer, 9216}, {late, 0}, {inner, 3072}} {
		peak, ok := a.StopPeak(want.id)
		require.True(t, ok)
		require.Equal(t, want.peak, peak.PeakBytes)
	}
	_, ok := a.StopPeak(outer)
	require.False(t, ok)
}

// Any number of measurements may be open, each with its own peak, and they may end in any order.
func TestPeakMeasurementsByTheHundredThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	const n = 100_000
	a := pool(t, 512*n, bfc.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	var live []bfc.Block
	for range n {
		live = append(live, allocate(t, a, 256))
	}
	ids, want := make([]bfc.PeakID, n), make([]uint64, n)
	for i := range n {
		id, before := a.StartPeak()
		ids[i], want[i] = id, before.Bytes // decreases each time
		require.NoError(t, a.Free(live[i].Addr))
	}
	rng.Shuffle(n, func(i, j int) { ids[i], ids[j], want[i], want[j] = ids[j], ids[i], want[j], want[i] })
	for i, id := range ids[:n/2] {
		peak, ok := a.StopPeak(id)
		require.True(t, ok)
		require.Equal(t, want[i], peak.PeakBytes)
	}
	all := allocate(t, a, 256*n/2)
	for i, id := range ids[n/2:] {
		peak, ok := a.StopPeak(id)
		require.True(t, ok)
		require.Equal(t, max(want[n/2+i], 256*n/2), peak.PeakBytes)
		again, _ := a.StartPeak() // a measurement that starts and ends costs nothing beside many others
		_, ok = a.StopPeak(again)
		require.True(t, ok)
	}
	require.NoError(t, a.Free(all.Addr))
}

func TestFindKnowsLiveBlocksOnly(t *testing.T) {
	a := pool(t, 65536, bfc.Options{})
	block := allocate(t, a, 1000)
	found, requested, ok := a.Find(block.Addr)
	require.True(t, ok)
	require.Equal(t, block, found)
	require.Equal(t, uint64(1000), requested)
	for _, addr := range []uint64{0, block.Addr + 256, block.Addr + block.Bytes, math.MaxUint64} {
		_, _, ok = a.Find(addr)
		require.False(t, ok)
	}
	require.NoError(t, a.Free(block.Addr))
	_, _, ok = a.Find(block.Addr)
	require.False(t, ok)
	heir := allocate(t, a, 1000)
	found, _, _ = a.Find(block.Addr)
	require.Equal(t, heir, found)
	require.NotEqual(t, block, found)
	require.NoError(t, a.Close())
	_, _, ok = a.Find(block.Addr)
	require.False(t, ok)
}

func TestFreeOfWhatIsNoBlock(t *testing.T) {
	a := pool(t, 65536, bfc.Options{})
	block := allocate(t, a, 1000)
	gone := allocate(t, a, 500)
	require.NoError(t, a.Free(gone.Addr))
	again := allocate(t, a, 500)
	require.Equal(t, gone.Addr, again.Addr)
	freed := allocate(t, a, 256)
	require.NoError(t, a.Free(freed.Addr))

	tests := map[string]struct {
		free func() error
		text string
	}{
		"an unknown address":   {func() error { return a.Free(42) }, "has no memory at 0x2a"},
		"just beyond the pool": {func() error { return a.Free(fakedevice.Base + 65536) }, "has no memory"},
		"the highest address":  {func() error { return a.Free(math.MaxUint64) }, "has no memory"},
		"the inside of a block": {func() error { return a.Free(block.Addr + 256) },
			"inside the block of 1024 bytes"},
		"one byte into a block":          {func() error { return a.Free(block.Addr + 1) }, "inside the block"},
		"a block that was freed":         {func() error { return a.Free(freed.Addr) }, "freed before"},
		"free memory that never was one": {func() error { return a.Free(freed.Addr + 4096) }, "free"},
		"an id of an earlier block": {func() error { return a.FreeID(gone.Addr, gone.ID) },
			"allocation 2 is not live there"},
		"an id of a later block": {func() error { return a.FreeID(gone.Addr, again.ID+1) }, "not live there"},
		"id 0":                   {func() error { return a.FreeID(gone.Addr, 0) }, "not live there"},
		"address 0 with an id":   {func() error { return a.FreeID(0, 1) }, "has no memory"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stats, memory := a.Stats(), a.MemoryMap()
			must.Fail(t, status.InvalidArgument, tt.free(), tt.text)
			require.Equal(t, stats, a.Stats())
			require.Equal(t, memory, a.MemoryMap())
			require.NoError(t, a.Check())
		})
	}
	require.NoError(t, a.FreeID(again.Addr, again.ID))
}

func TestZeroBytes(t *testing.T) {
	a := pool(t, 65536, bfc.Options{})
	block := must.OK(a.Allocate(0))(t)
	require.Equal(t, bfc.Block{}, block)
	require.NoError(t, a.Free(block.Addr))
	require.NoError(t, a.FreeID(block.Addr, block.ID))
	require.Equal(t, bfc.Stats{BytesLimit: 65536}, a.Stats())
	_, _, ok := a.Size(0)
	require.False(t, ok)
}

func TestSizesNearTheEndOfArithmetic(t *testing.T) {
	const highest = math.MaxUint64
	for name, limit := range map[string]uint64{"no limit to speak of": highest, "half": 1 << 63, "small": mib,
		"none": 0} {
		for _, rule := range []bfc.SplitRule{{}, {TensorFlow: true}, {TensorFlow: true, FragmentationFraction: 1}} {
			t.Run(name, func(t *testing.T) {
				a := pool(t, limit, bfc.Options{Split: rule, GarbageCollect: true})
				for _, bytes := range []uint64{highest, highest - 1, highest - 255, highest - 256, highest - 257,
					1<<63 + 1} {
					_, err := a.Allocate(bytes)
					must.Fail(t, status.ResourceExhausted, err)
					require.Equal(t, bytes, outOfMemory(t, err).Requested)
					require.GreaterOrEqual(t, outOfMemory(t, err).Rounded, bytes)
					if bytes > limit-limit%256 {
						require.Equal(t, bfc.TooLarge, outOfMemory(t, err).Cause)
					}
				}
				require.NoError(t, a.Check())
			})
		}
	}
}

// With room for it, half of all addresses are one block.
func TestHugeBlock(t *testing.T) {
	device := fakedevice.New(1 << 62)
	a := newAllocator(t, suballoc.NewRegions(device, suballoc.Options{LimitBytes: math.MaxUint64}), bfc.Options{})
	block := allocate(t, a, 1<<61)
	small := allocate(t, a, 1)
	require.NoError(t, a.Check())
	require.NoError(t, a.Free(block.Addr))
	require.NoError(t, a.Free(small.Addr))
	require.NoError(t, a.Check())
	require.GreaterOrEqual(t, a.Stats().LargestFreeBlockBytes, uint64(1<<61))
}

func TestNewRefuses(t *testing.T) {
	sub := suballoc.NewRegions(fakedevice.New(mib), suballoc.Options{LimitBytes: mib})
	tests := map[string]struct {
		sub  bfc.SubAllocator
		rule bfc.SplitRule
	}{
		"no sub-allocator":           {},
		"a negative fraction":        {sub, bfc.SplitRule{TensorFlow: true, FragmentationFraction: -0.1}},
		"a fraction above 1":         {sub, bfc.SplitRule{TensorFlow: true, FragmentationFraction: 1.1}},
		"a fraction that is none":    {sub, bfc.SplitRule{TensorFlow: true, FragmentationFraction: math.NaN()}},
		"a fraction without meaning": {sub, bfc.SplitRule{FragmentationFraction: 0.1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			must.Fail(t, status.InvalidArgument, must.Err(bfc.New(tt.sub, bfc.Options{Split: tt.rule})))
		})
	}
}

func TestClose(t *testing.T) {
	device := fakedevice.New(1 << 30)
	sub := suballoc.NewRegions(device, suballoc.Options{LimitBytes: 1 << 30, Growth: true})
	a := must.OK(bfc.New(sub, bfc.Options{Name: "GPU_0_bfc"}))(t)
	block := allocate(t, a, 5*mib)
	allocate(t, a, 50*mib)
	peak, _ := a.StartPeak()
	require.NoError(t, a.Close())
	require.Empty(t, device.Live)
	require.Equal(t, uint64(1<<30), sub.AvailableBytes())

	_, err := a.Allocate(1)
	errs := []error{err, a.Free(block.Addr), a.Free(0), a.FreeID(block.Addr, block.ID), a.FreeID(0, 0), a.Check()}
	_, err = a.Allocate(0)
	for _, err := range append(errs, err) {
		must.Fail(t, status.FailedPrecondition, err, "GPU_0_bfc is closed")
	}
	_, _, ok := a.Size(block.Addr)
	require.False(t, ok)
	require.Empty(t, a.MemoryMap().Regions)
	s := a.Stats()
	require.Equal(t, []uint64{2, 0, 0, 0, 0, 0}, []uint64{s.NumAllocs, s.BytesInUse, s.BytesReserved, s.LiveBlocks,
		s.RequestedBytesInUse, s.LargestFreeBlockBytes})
	measured, ok := a.StopPeak(peak)
	require.True(t, ok)
	require.GreaterOrEqual(t, measured.PeakBytes, uint64(55*mib))
	require.NoError(t, a.Close())
}

func TestManyAllocatorsCanComeAndGo(t *testing.T) {
	for range 2000 {
		a := must.OK(bfc.New(suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: 1 << 40}),
			bfc.Options{}))(t)
		allocate(t, a, 1)
		require.NoError(t, a.Close())
	}
}

// Regions that happen to be adjacent stay separate: a block that spans two cuMemAlloc areas could not be released.
func TestRegionsNeverJoin(t *testing.T) {
	device := fakedevice.New(1 << 30)
	device.GapBytes = 0
	a := newAllocator(t, suballoc.NewRegions(device, suballoc.Options{LimitBytes: 1 << 30, Growth: true}),
		bfc.Options{})
	first := allocate(t, a, 2*mib)
	second := allocate(t, a, 4*mib)
	require.Equal(t, first.Addr+first.Bytes, second.Addr)
	require.NoError(t, a.Free(first.Addr))
	require.NoError(t, a.Free(second.Addr))
	require.Equal(t, "0x0/2097152,0x200000/4194304", freeChunks(a))
	require.Equal(t, fakedevice.Base+uint64(6*mib), allocate(t, a, 6*mib).Addr)
	require.NoError(t, a.Check())
}

// A growing table must neither lose a block nor move one.
func TestManyLiveBlocks(t *testing.T) {
	a := pool(t, 1<<30, bfc.Options{})
	ids := map[uint64]uint64{}
	for i := range uint64(50_000) {
		block := allocate(t, a, 1+i%700)
		ids[block.Addr] = block.ID
	}
	require.NoError(t, a.Check())
	require.Len(t, ids, 50_000)
	for addr, id := range ids { // in random order
		require.NoError(t, a.FreeID(addr, id))
	}
	require.NoError(t, a.Check())
	require.Equal(t, "0x0/1073741824", freeChunks(a))
}

func TestOperationsAllocateNothing(t *testing.T) {
	for name, rule := range map[string]bfc.SplitRule{"exact": {}, "TensorFlow": {TensorFlow: true}} {
		t.Run(name, func(t *testing.T) {
			a := pool(t, 1<<30, bfc.Options{Split: rule})
			blocks := make([]bfc.Block, 100)
			run := func() {
				for i := range blocks {
					block, err := a.Allocate(uint64(i) * 1000)
					if err != nil {
						t.Fatal(err)
					}
					blocks[i] = block
				}
				for _, b := range blocks {
					if err := a.FreeID(b.Addr, b.ID); err != nil {
						t.Fatal(err)
					}
				}
				block, _ := a.Allocate(77)
				_ = a.Free(block.Addr)
				_, _, _ = a.Size(block.Addr)
				_ = a.Stats()
			}
			require.Zero(t, testing.AllocsPerRun(50, run))
		})
	}
}

func TestOutOfMemorySaysWhy(t *testing.T) {
	tests := map[string]struct {
		limit, capacity uint64
		growth          bool
		layout          []uint64
		free            []int
		ask             uint64
		cause           bfc.Cause
		text            []string
	}{
		"larger than the limit": {limit: 8 * mib, capacity: 64 * mib, ask: 9 * mib, cause: bfc.TooLarge,
			text: []string{"9.00MiB (9437184 bytes)", "larger than the limit", "limit 8.00MiB (8388608 bytes)"}},
		"larger than the usable part of the limit": {limit: 1000, capacity: 64 * mib, ask: 769, cause: bfc.TooLarge},
		"the limit is in use": {limit: 8 * mib, capacity: 64 * mib, layout: []uint64{7 * mib}, ask: 2 * mib,
			cause: bfc.LimitReached,
			text: []string{"the limit is reached", "in use 7.00MiB (7340032 bytes) in 1 block",
				"largest free block 1.00MiB (1048576 bytes)"}},
		"pieces too small": {limit: 8 * mib, capacity: 64 * mib, layout: []uint64{3 * mib, mib, 4 * mib},
			free: []int{0, 2}, ask: 5 * mib, cause: bfc.Fragmented,
			text: []string{"enough memory is free, but it is fragmented",
				"largest free block 4.00MiB (4194304 bytes)"}},
		"pieces and the rest of the limit too small": {limit: 8 * mib, capacity: 64 * mib, growth: true,
			layout: []uint64{2 * mib, 4 * mib}, free: []int{0}, ask: 3 * mib, cause: bfc.Fragmented,
			text: []string{"not yet reserved 2.00MiB (2097152 bytes)"}},
		"the device refuses exactly what is left": {limit: 8 * mib, capacity: 2 * mib, growth: true,
			layout: []uint64{2 * mib}, ask: 6 * mib, cause: bfc.DeviceFull},
		"the device is full": {limit: 64 * mib, capacity: 8 * mib, growth: true, layout: []uint64{2 * mib, 4 * mib},
			ask: 3 * mib, cause: bfc.DeviceFull,
			text: []string{"the limit was not reached, but the GPU refused (the device is full"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sub := suballoc.NewRegions(fakedevice.New(tt.capacity), suballoc.Options{LimitBytes: tt.limit,
				Growth: tt.growth})
			a := newAllocator(t, sub, bfc.Options{Name: "GPU_0_bfc"})
			var blocks []bfc.Block
			for _, bytes := range tt.layout {
				blocks = append(blocks, allocate(t, a, bytes))
			}
			for _, i := range tt.free {
				require.NoError(t, a.Free(blocks[i].Addr))
			}
			before := a.Stats()
			_, err := a.Allocate(tt.ask)
			oom := outOfMemory(t, err)
			require.Equal(t, tt.cause, oom.Cause, "%v", err)
			must.Fail(t, status.ResourceExhausted, err)
			require.Equal(t, tt.cause == bfc.DeviceFull, errors.Is(err, fakedevice.ErrFull))
			for _, text := range append(tt.text, "allocator GPU_0_bfc is out of memory for ") {
				require.ErrorContains(t, err, text)
			}
			require.Equal(t, before, a.Stats())
			require.NoError(t, a.Check())
		})
	}
}

func TestCausesHaveNames(t *testing.T) {
	require.Equal(t, "too large, device full, fragmented, limit reached",
		bfc.TooLarge.String()+", "+bfc.DeviceFull.String()+", "+bfc.Fragmented.String()+", "+bfc.LimitReached.String())
	require.Empty(t, bfc.Cause(0).String()+bfc.Cause(-1).String()+bfc.Cause(99).String())
}
