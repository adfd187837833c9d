package bfc_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
)

// pair runs an allocator and the naive one side by side, each over its own device, and compares all observable state
// after each operation.
type pair struct {
	t       require.TestingT
	devices [2]*fakedevice.Device
	a       *bfc.Allocator
	n       *naive
	live    []bfc.Block
	peaks   map[bfc.PeakID]*most // open measurements
}

// most is the most in use at one time since a measurement began.
type most struct {
	bytes   uint64
	holders map[holder.ID]uint64
}

func (m *most) raise(n *naive) {
	m.bytes = max(m.bytes, n.stats.BytesInUse)
	for by, h := range n.holders {
		m.holders[by] = max(m.holders[by], h.Bytes)
	}
}

// sorted is a copy with the rows sorted by holder, and nil if there are none.
func sorted(u bfc.Usage) bfc.Usage {
	u.Rows = slices.SortedFunc(slices.Values(u.Rows),
		func(x, y bfc.UsageRow) int {
			return int(holder.Of(x.Library, x.Tag)) - int(holder.Of(y.Library, y.Tag))
		})
	return u
}

type setting struct {
	scale    int // of sizes, as a power of two
	limit    uint64
	growth   bool
	capacity uint64
	gap      uint64
	opts     bfc.Options
	fail     func(int) error
}

func newPair(t require.TestingT, s setting) *pair {
	p := &pair{t: t, peaks: map[bfc.PeakID]*most{}}
	var regions [2]*suballoc.Regions
	for i := range p.devices {
		p.devices[i] = fakedevice.New(s.capacity)
		p.devices[i].GapBytes = s.gap
		p.devices[i].Fail = s.fail
		regions[i] = suballoc.NewRegions(p.devices[i], suballoc.Options{LimitBytes: s.limit, Growth: s.growth})
	}
	a, err := bfc.New(regions[0], s.opts)
	require.NoError(t, err)
	p.a, p.n = a, newNaive(regions[1], s.opts)
	return p
}

func (p *pair) allocate(bytes uint64, by holder.ID) {
	block, err := p.a.AllocateFor(0, bytes, by)
	want, ok := p.n.allocate(bytes, block.Addr, by)
	if !ok {
		require.Equal(p.t, status.ResourceExhausted, status.CodeOf(err), "%v", err)
		p.judge(err, bytes)
		return
	}
	require.NoError(p.t, err)
	require.Equal(p.t, want, block)
	if bytes == 0 {
		return
	}
	p.live = append(p.live, block)
	for _, peak := range p.peaks {
		peak.raise(p.n)
	}
}

// judge compares the cause of a failure with the resulting state.
func (p *pair) judge(err error, bytes uint64) {
	require.ErrorContains(p.t, err, " out of memory")
	var oom *bfc.OutOfMemory
	require.ErrorAs(p.t, err, &oom)
	available := p.n.sub.AvailableBytes()
	s := p.n.stats
	require.Equal(p.t, bytes, oom.Requested)
	require.Equal(p.t, []uint64{s.BytesLimit, s.BytesInUse, s.BytesReserved, s.BytesReserved - s.BytesInUse,
		s.LargestFreeBlockBytes, available},
		[]uint64{oom.Limit, oom.InUse, oom.Reserved, oom.FreeInPool, oom.LargestFree, oom.Available})
	switch oom.Cause {
	case bfc.TooLarge:
		require.Greater(p.t, bytes, s.BytesLimit/256*256)
	case bfc.DeviceFull:
		require.LessOrEqual(p.t, bytes, available)
		require.Error(p.t, oom.Err)
	case bfc.Fragmented:
		require.Greater(p.t, bytes, max(available, oom.LargestFree))
		require.LessOrEqual(p.t, oom.Rounded, available+oom.FreeInPool)
	case bfc.LimitReached:
		require.Greater(p.t, oom.Rounded, available+oom.FreeInPool)
		require.LessOrEqual(p.t, bytes, s.BytesLimit)
	default:
		require.Fail(p.t, "no cause", "%v", err)
	}
}

func (p *pair) free(at int, withID bool) {
	b := p.live[at]
	p.live = append(p.live[:at], p.live[at+1:]...)
	require.True(p.t, p.n.free(b.Addr))
	if withID {
		require.NoError(p.t, p.a.FreeID(b.Addr, b.ID))
	} else {
		require.NoError(p.t, p.a.Free(b.Addr))
	}
}

// freeAnything frees an address that may or may not be a block's.
func (p *pair) freeAnything(addr uint64) {
	ok := p.n.free(addr)
	err := p.a.Free(addr)
	if ok {
		require.NoError(p.t, err)
	} else {
		require.Equal(p.t, status.InvalidArgument, status.CodeOf(err), "%v", err)
	}
	for i, b := range p.live {
		if ok && b.Addr == addr {
			p.live = append(p.live[:i], p.live[i+1:]...)
			return
		}
	}
}

func (p *pair) startPeak() {
	id, before := p.a.StartPeak()
	require.Equal(p.t, p.n.usage(), sorted(before))
	p.peaks[id] = &most{holders: map[holder.ID]uint64{}}
	p.peaks[id].raise(p.n)
}

// stopPeak ends the oldest open measurement.
func (p *pair) stopPeak() {
	if len(p.peaks) == 0 {
		return
	}
	id := slices.Min(slices.Collect(maps.Keys(p.peaks)))
	got, ok := p.a.StopPeak(id)
	require.True(p.t, ok)
	want, peak := p.n.usage(), p.peaks[id]
	want.PeakBytes, want.Rows = peak.bytes, nil
	for _, by := range slices.Sorted(maps.Keys(peak.holders)) {
		if peak.holders[by] > 0 {
			h := p.n.holders[by]
			h.PeakBytes = peak.holders[by]
			want.Rows = append(want.Rows, h)
		}
	}
	require.Equal(p.t, want, sorted(got))
	delete(p.peaks, id)
	_, ok = p.a.StopPeak(id)
	require.False(p.t, ok)
}

func (p *pair) compare() {
	require.NoError(p.t, p.a.Check())
	require.Equal(p.t, p.n.stats, p.a.Stats())
	require.Equal(p.t, p.n.usage(), sorted(p.a.Usage()))
	require.Equal(p.t, p.n.memoryMap(), p.a.MemoryMap())
	require.Equal(p.t, p.devices[1].Calls, p.devices[0].Calls)
	require.LessOrEqual(p.t, p.devices[0].PeakBytes, p.n.stats.BytesLimit)
}

func (p *pair) close() {
	p.devices[0].Fail = nil
	lost := uint64(0)
	for _, call := range p.devices[0].Calls {
		if call.Op == "unmap" && call.Err != nil {
			lost += call.Bytes
		}
	}
	require.NoError(p.t, p.a.Close())
	require.Equal(p.t, lost, p.devices[0].LiveBytes, "what the device refused to take back")
}

func drawSetting(t *rapid.T) setting {
	scale := rapid.SampledFrom([]int{0, 0, 11, 30}).Draw(t, "scale") // beyond 63 MiB, classes hold several sizes
	s := setting{
		scale:    scale,
		limit:    rapid.Uint64Range(0, 8<<20).Draw(t, "limit") << scale,
		growth:   rapid.Bool().Draw(t, "growth"),
		capacity: 8 << 20 << scale,
		gap:      rapid.SampledFrom([]uint64{0, 2 << 20}).Draw(t, "gap"),
		opts:     bfc.Options{GarbageCollect: rapid.Bool().Draw(t, "collect")},
	}
	if rapid.Bool().Draw(t, "small device") {
		s.capacity = rapid.Uint64Range(0, 8<<20).Draw(t, "capacity") << scale
	}
	if rapid.Bool().Draw(t, "TensorFlow") {
		s.opts.Split.TensorFlow = true
		s.opts.Split.FragmentationFraction = rapid.SampledFrom([]float64{0, 0.01, 0.3}).Draw(t, "fraction")
	}
	return s
}

// sizes of requests: mostly a few that recur, so that ties and exact fits happen.
func drawSize(t *rapid.T, s setting) uint64 {
	switch rapid.IntRange(0, 9).Draw(t, "kind of size") {
	case 0:
		return rapid.Uint64Range(0, s.limit+s.limit/4).Draw(t, "any size")
	case 1, 2, 3:
		return rapid.Uint64Range(1, 20_000<<s.scale).Draw(t, "small size")
	case 4:
		return uint64(1) << rapid.IntRange(0, 23+s.scale).Draw(t, "power")
	default:
		return 256 * rapid.Uint64Range(1, 4).Draw(t, "units") << s.scale
	}
}

func TestAgainstNaive(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	rapid.Check(t, func(t *rapid.T) {
		s := drawSetting(t)
		p := newPair(t, s)
		defer p.close()
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				for range rapid.IntRange(1, 6).Draw(t, "times") {
					p.allocate(drawSize(t, s),
						holder.ID(rapid.SampledFrom([]uint16{0, 1, 9, 9, 300, 65535}).Draw(t, "holder")))
				}
			},
			"free": func(t *rapid.T) {
				for range rapid.IntRange(0, min(5, len(p.live))).Draw(t, "times") {
					p.free(rapid.IntRange(0, len(p.live)-1).Draw(t, "which"), rapid.Bool().Draw(t, "with id"))
				}
			},
			"free anything": func(t *rapid.T) {
				p.freeAnything(fakedevice.Base + 64*rapid.Uint64Range(0, 1<<17).Draw(t, "where"))
			},
			"clear stats": func(*rapid.T) { p.a.ClearStats(); p.n.clearStats() },
			"start peak":  func(*rapid.T) { p.startPeak() },
			"stop peak":   func(*rapid.T) { p.stopPeak() },
			"":            func(*rapid.T) { p.compare() },
		})
	})
}
