package suballoc_test

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ bfc.SubAllocator = (*suballoc.Regions)(nil)

const mib = 1 << 20

// Each row requests regions one after another; got is the size, or 0 for a refusal, and next the size of the next
// region after that.
func TestExtend(t *testing.T) {
	type ask struct{ bytes, got, next uint64 }
	tests := map[string]struct {
		limit, capacity uint64
		growth          bool
		first           uint64 // initial size of the next region
		asks            []ask
	}{
		"all at once": {limit: 64 * mib, capacity: 1 << 40, first: 64 * mib,
			asks: []ask{{256, 64 * mib, 128 * mib}, {256, 0, 128 * mib}}},
		"growth doubles": {limit: 64 * mib, capacity: 1 << 40, growth: true, first: 2 * mib,
			asks: []ask{{256, 2 * mib, 4 * mib}, {256, 4 * mib, 8 * mib}, {256, 8 * mib, 16 * mib}}},
		"a raise for a large request is no doubling": {limit: 64 * mib, capacity: 1 << 40, growth: true, first: 2 * mib,
			asks: []ask{{9 * mib, 16 * mib, 16 * mib}, {256, 16 * mib, 32 * mib}}},
		"the rest of the limit is the last region": {limit: 7 * mib, capacity: 1 << 40, growth: true, first: 2 * mib,
			asks: []ask{{mib, 2 * mib, 4 * mib}, {mib, 4 * mib, 8 * mib}, {mib, mib, 16 * mib}, {256, 0, 16 * mib}}},
		"a refusal by the limit raises nothing": {limit: 7 * mib, capacity: 1 << 40, growth: true, first: 2 * mib,
			asks: []ask{{7*mib + 256, 0, 2 * mib}, {7 * mib, 7 * mib, 8 * mib}}},
		"a refusal by the device keeps the raise": {limit: 64 * mib, capacity: mib, growth: true, first: 2 * mib,
			asks: []ask{{9 * mib, 0, 16 * mib}, {9 * mib, 0, 16 * mib}}},
		"a refusal by the device without a raise doubles nothing": {limit: 64 * mib, capacity: 256, growth: true,
			first: 2 * mib,
			asks:  []ask{{mib, 0, 2 * mib}}},
		"a smaller region doubles all the same": {limit: 64 * mib, capacity: 1_900_000, growth: true, first: 2 * mib,
			asks: []ask{{mib, 1_887_488, 4 * mib}}},
		"limit of no multiple of 256": {limit: 1_000_000, capacity: 1 << 40, first: 1_000_192,
			asks: []ask{{256, 999_936, 2_000_384}, {256, 0, 2_000_384}}},
		"limit below the first step of growth": {limit: 1000, capacity: 1 << 40, growth: true, first: 1024,
			asks: []ask{{256, 768, 2048}, {256, 0, 2048}}},
		"limit below 256": {limit: 255, capacity: 1 << 40, first: 256, asks: []ask{{256, 0, 256}}},
		"limit 0":         {limit: 0, capacity: 1 << 40, growth: true, first: 0, asks: []ask{{256, 0, 0}}},
		"limit at the end of arithmetic": {limit: math.MaxUint64, capacity: 1 << 62, growth: true, first: 2 * mib,
			asks: []ask{{1 << 61, 1 << 61, 1 << 61}, {math.MaxUint64 - 255, 0, 1 << 61},
				{1<<63 + 256, 0, math.MaxUint64 - 255}}},
		"all of it at the end of arithmetic": {limit: math.MaxUint64, capacity: 1 << 62, first: math.MaxUint64 - 255,
			asks: []ask{{256, 0x3a90874000000000, math.MaxUint64 - 255}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			device := fakedevice.New(tt.capacity)
			r := suballoc.NewRegions(device, suballoc.Options{LimitBytes: tt.limit, Growth: tt.growth})
			require.Equal(t, tt.first, r.NextRegionBytes())
			require.Equal(t, tt.limit, r.LimitBytes())
			var taken uint64
			for i, ask := range tt.asks {
				addr, bytes, err := r.Extend(ask.bytes)
				if ask.got == 0 {
					require.Equal(t, status.ResourceExhausted, status.CodeOf(err), "ask %d", i)
				} else {
					require.NoError(t, err, "ask %d", i)
					require.Equal(t, bytes, device.Live[addr])
				}
				taken += bytes
				require.Equal(t, ask.got, bytes, "ask %d", i)
				require.Equal(t, ask.next, r.NextRegionBytes(), "ask %d", i)
				require.Equal(t, taken, r.TakenBytes())
				require.Equal(t, (tt.limit-taken)/256*256, r.AvailableBytes())
				require.Equal(t, taken, device.LiveBytes)
			}
		})
	}
}

// The nine tenths are float32, as in TensorFlow. The sizes are TensorFlow's.
func TestBackOffSequence(t *testing.T) {
	tests := map[string]struct {
		limit, atLeast uint64
		sizes          []uint64
	}{
		"80 GiB": {80 << 30, 24 << 30, []uint64{85899345920, 77309411328, 69578465280, 62620618752, 56358555648,
			50722697216, 45650427904,
			41085382656, 36976844800, 33279160320, 29951244288, 26956120064}},
		"1 GiB": {1 << 30, 500 * mib, []uint64{1073741824, 966367744, 869731072, 782758144, 704482304, 634034176,
			570630912}},
		"2560 bytes": {2560, 256, []uint64{2560, 2304}},
		"2304 bytes": {2304, 256, []uint64{2304}},
		"256 bytes":  {256, 256, []uint64{256}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			device := fakedevice.New(0)
			r := suballoc.NewRegions(device, suballoc.Options{LimitBytes: tt.limit})
			require.ErrorIs(t, must.Err2(r.Extend(tt.atLeast)), fakedevice.ErrFull)
			var sizes []uint64
			for _, call := range device.Calls {
				sizes = append(sizes, call.Bytes)
			}
			require.Equal(t, tt.sizes, sizes)
		})
	}
}

// The size of the next region doubles with each region, even if regions are released. TensorFlow's becomes 0 at 2^64,
// and then it doubles that forever.
func TestRegionsThatComeAndGo(t *testing.T) {
	device := fakedevice.New(1 << 40)
	r := suballoc.NewRegions(device, suballoc.Options{LimitBytes: 64 * mib, Growth: true})
	for range 200 {
		addr, bytes := must.OK2(r.Extend(256))(t)
		require.LessOrEqual(t, bytes, uint64(64*mib))
		require.NoError(t, r.Release(addr, bytes))
	}
	require.Equal(t, uint64(math.MaxUint64-255), r.NextRegionBytes())
}

func TestExtendRefusesCrookedRequests(t *testing.T) {
	device := fakedevice.New(1 << 40)
	r := suballoc.NewRegions(device, suballoc.Options{LimitBytes: mib})
	for _, bytes := range []uint64{0, 1, 255, 257, math.MaxUint64} {
		must.Fail(t, status.InvalidArgument, must.Err2(r.Extend(bytes)))
	}
	require.Empty(t, device.Calls)
}

func TestRelease(t *testing.T) {
	device := fakedevice.New(1 << 40)
	r := suballoc.NewRegions(device, suballoc.Options{LimitBytes: 7 * mib, Growth: true})
	addr, bytes := must.OK2(r.Extend(256))(t)
	for _, wrong := range [][2]uint64{{addr, bytes - 256}, {addr + 256, bytes}, {0, 0}} {
		must.Fail(t, status.InvalidArgument, r.Release(wrong[0], wrong[1]))
	}
	require.Equal(t, bytes, r.TakenBytes())
	require.NoError(t, r.Release(addr, bytes))
	must.Fail(t, status.InvalidArgument, r.Release(addr, bytes))
	require.Zero(t, device.LiveBytes)
	require.Equal(t, uint64(7*mib), r.AvailableBytes())
	require.Equal(t, uint64(4*mib), r.NextRegionBytes())
}

// Memory that the device does not free is still the device's: counting it as free would exceed the limit.
func TestWhatTheDeviceKeepsCounts(t *testing.T) {
	device := fakedevice.New(1 << 40)
	r := suballoc.NewRegions(device, suballoc.Options{LimitBytes: 7 * mib, Growth: true})
	addr, bytes := must.OK2(r.Extend(256))(t)
	device.Fail = func(int) error { return fakedevice.ErrInjected }
	err := r.Release(addr, bytes)
	require.ErrorIs(t, err, fakedevice.ErrInjected)
	must.Fail(t, status.Internal, err)
	require.Zero(t, r.TakenBytes())
	require.Equal(t, uint64(5*mib), r.AvailableBytes())
}

// oddDevice returns one address, valid or not.
type oddDevice struct {
	addr  uint64
	freed []uint64
	err   error // of MemFree
}

func (d *oddDevice) MemAlloc(uint64) (uint64, error) { return d.addr, nil }

func (d *oddDevice) MemFree(addr uint64) error {
	d.freed = append(d.freed, addr)
	return d.err
}

func TestDeviceThatGivesNonsense(t *testing.T) {
	for name, addr := range map[string]uint64{"address 0": 0, "a crooked address": 4096 + 128} {
		t.Run(name, func(t *testing.T) {
			device := &oddDevice{addr: addr}
			r := suballoc.NewRegions(device, suballoc.Options{LimitBytes: mib})
			must.Fail(t, status.Internal, must.Err2(r.Extend(256)))
			require.Equal(t, []uint64{addr}, device.freed)
			require.Equal(t, uint64(mib), r.AvailableBytes())

			device.err = fakedevice.ErrInjected
			require.ErrorIs(t, must.Err2(r.Extend(256)), fakedevice.ErrInjected)
			require.Zero(t, r.AvailableBytes(), "it was taken and not given back")
		})
	}
	t.Run("a live address again", func(t *testing.T) {
		device := &oddDevice{addr: 4096}
		r := suballoc.NewRegions(device, suballoc.Options{LimitBytes: 8 * mib, Growth: true})
		_, bytes := must.OK2(r.Extend(256))(t)
		must.Fail(t, status.Internal, must.Err2(r.Extend(256)))
		require.Empty(t, device.freed, "freeing it would take the live region away")
		require.Equal(t, bytes, r.TakenBytes())
	})
}

// For all requests and all device failures: the limit holds at the device, and the accounting agrees with the device's.
func TestLimitHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Uint64Range(0, 1<<rapid.IntRange(0, 40).Draw(t, "magnitude")).Draw(t, "limit")
		device := fakedevice.New(rapid.Uint64Range(0, 1<<40).Draw(t, "capacity"))
		refusals := rapid.SliceOfN(rapid.Bool(), 1, 20).Draw(t, "refusals")
		device.Fail = func(call int) error {
			if refusals[call%len(refusals)] {
				return fakedevice.ErrInjected
			}
			return nil
		}
		r := suballoc.NewRegions(device, suballoc.Options{LimitBytes: limit, Growth: rapid.Bool().Draw(t, "growth")})
		live, next := map[uint64]uint64{}, r.NextRegionBytes()
		t.Repeat(map[string]func(*rapid.T){
			"extend": func(t *rapid.T) {
				atLeast := 256 * rapid.Uint64Range(1, 1+limit/256).Draw(t, "at least")
				addr, bytes, err := r.Extend(atLeast)
				if err == nil {
					require.GreaterOrEqual(t, bytes, atLeast)
					require.Zero(t, bytes%256)
					live[addr] = bytes
				}
			},
			"release": func(t *rapid.T) {
				for addr, bytes := range live {
					_ = r.Release(addr, bytes)
					delete(live, addr)
					return
				}
			},
			"": func(t *rapid.T) {
				var taken uint64
				for _, bytes := range live {
					taken += bytes
				}
				require.Equal(t, taken, r.TakenBytes())
				require.Equal(t, (limit-device.LiveBytes)/256*256, r.AvailableBytes())
				require.LessOrEqual(t, device.PeakBytes, limit)
				require.GreaterOrEqual(t, r.NextRegionBytes(), next)
				next = r.NextRegionBytes()
			},
		})
	})
}

func TestGoroutines(t *testing.T) {
	device := fakedevice.New(1 << 40)
	r := suballoc.NewRegions(device, suballoc.Options{LimitBytes: 64 * mib, Growth: true})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				if addr, bytes, err := r.Extend(256); err == nil {
					if err := r.Release(addr, bytes); err != nil {
						t.Error(err)
					}
				}
				_ = r.AvailableBytes()
			}
		})
	}
	all.Wait()
	require.Zero(t, r.TakenBytes())
	require.Empty(t, device.Live)
	require.LessOrEqual(t, device.PeakBytes, uint64(64*mib))
}
