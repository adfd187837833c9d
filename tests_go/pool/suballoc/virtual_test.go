package suballoc_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

var _ bfc.Mapper = (*suballoc.Virtual)(nil)

func newVirtual(t require.TestingT, device *fakedevice.VirtualDevice, limitBytes uint64) *suballoc.Virtual {
	return must.OK(suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: limitBytes}))(t)
}

// failing makes the calls of the kinds in ops fail from now on.
func failing(device *fakedevice.VirtualDevice, ops string) {
	device.FailOp = func(op string) error {
		if slices.Contains(strings.Fields(ops), op) {
			return fakedevice.ErrInjected
		}
		return nil
	}
}

// Every byte of a limit can be allocated, whatever the limit is.
func TestEveryByteOfTheLimit(t *testing.T) {
	for _, limit := range []uint64{256, mib, 2 * mib, 7 * mib, 257 * mib, 64 * mib, 34*mib + 512} {
		for _, piece := range []uint64{mib / 4, mib / 2, mib, 3 * mib, limit} {
			device := fakedevice.NewVirtual(1 << 40)
			v := newVirtual(t, device, limit)
			a := must.OK(bfc.New(v, bfc.Options{}))(t)
			var got uint64
			for piece := piece; got < limit; {
				b, err := a.Allocate(min(piece, limit-got))
				if err != nil { // the rest is elsewhere: it does not serve half of a large piece
					require.Greater(t, piece, uint64(256), "limit %d, after %d: %v", limit, got, err)
					piece = 256
					continue
				}
				got += b.Bytes
			}
			require.NoError(t, a.Check())
			require.NoError(t, v.Check())
			require.Equal(t, limit, device.LiveBytes)
			require.Equal(t, limit, v.HeldBytes())
			must.Fail(t, status.ResourceExhausted, must.Err(a.Allocate(1)))
			require.NoError(t, a.Close())
			require.NoError(t, v.Close())
			require.NoError(t, device.Clean())
		}
	}
}

func TestCallsOfTheDevice(t *testing.T) {
	device := fakedevice.NewVirtual(1 << 40)
	v := newVirtual(t, device, 71*mib)
	require.Equal(t, []string{"granularity 0", "reserve 595591168"}, device.TakeOps())
	base, bytes, granule := v.Range()
	require.Equal(t, []uint64{fakedevice.Base, 8 * 71 * mib, 2 * mib}, []uint64{base, bytes, granule})

	require.Equal(t, uint64(2*mib), must.OK(v.Map(base, 1, bytes))(t))
	require.Equal(t, []string{"create 2097152", "map 2097152@0x0", "access 2097152@0x0"}, device.TakeOps())

	require.Equal(t, uint64(34*mib), must.OK(v.Map(base+2*mib, 33*mib, bytes-2*mib))(t))
	want := []string{}
	for at := 2 * mib; at < 36*mib; at += 2 * mib {
		want = append(want, "create 2097152", fmt.Sprintf("map 2097152@%#x", at))
	}
	require.Equal(t, append(want, "access 35651584@0x200000"), device.TakeOps(), "access for all in one call")

	from, to := must.OK2(v.Unmap(base+256, 3*mib))(t)
	require.Equal(t, from, to, "half a granule does not go back")
	from, to, err := v.Unmap(base+4*mib, 35*mib)
	require.Equal(t, status.InvalidArgument, status.CodeOf(err), "nor what is not there")
	require.Equal(t, from, to)
	from, to = must.OK2(v.Unmap(base+3*mib, 33*mib))(t)
	require.Equal(t, []uint64{base + 4*mib, base + 36*mib}, []uint64{from, to})
	require.Equal(t, append([]string{"unmap 33554432@0x400000"}, slices.Repeat([]string{"release 0"}, 16)...),
		device.TakeOps())
	require.Equal(t, uint64(4*mib), v.HeldBytes())

	addr, bytes := must.OK2(v.Extend(66*mib + 256))(t)
	require.Equal(t, uint64(67*mib), bytes, "all that is left")
	require.Equal(t, []string{"alloc 70254592"}, device.TakeOps())
	require.Zero(t, v.AvailableBytes())
	require.NoError(t, v.Release(addr, bytes))
	require.NoError(t, v.Release(base, 2*mib))
	require.Equal(t, []string{"free 0", "unmap 2097152@0x0", "release 0"}, device.TakeOps())
	require.NoError(t, v.Check())

	require.NoError(t, v.Close())
	require.Equal(t, []string{"unmap 2097152@0x200000", "release 0", "unreserve 595591168@0x0"}, device.TakeOps())
	require.NoError(t, v.Close())
	require.Empty(t, device.TakeOps())
	require.NoError(t, device.Clean())
}

func TestVirtualRefuses(t *testing.T) {
	device := fakedevice.NewVirtual(64 * mib)
	v := newVirtual(t, device, 9*mib)
	base, bytes, _ := v.Range()
	must.OK(v.Map(base+4*mib, 4*mib, 4*mib))(t)
	held := v.HeldBytes()
	mapping := func(addr, atLeast, atMost uint64) error { _, err := v.Map(addr, atLeast, atMost); return err }
	extending := func(bytes uint64) error { _, _, err := v.Extend(bytes); return err }
	unmapping := func(addr, bytes uint64) error { _, _, err := v.Unmap(addr, bytes); return err }
	tests := map[string]struct {
		err  error
		code status.Code
	}{
		"no bytes":                       {mapping(base, 0, bytes), status.InvalidArgument},
		"below the range":                {mapping(base-2*mib, 1, bytes), status.InvalidArgument},
		"above the range":                {mapping(base+bytes, 1, bytes), status.InvalidArgument},
		"far above the range":            {mapping(math.MaxUint64-2*mib+1, 1, bytes), status.InvalidArgument},
		"beyond the range's end":         {mapping(base+bytes-2*mib, 4*mib, 4*mib), status.InvalidArgument},
		"not at a granule's beginning":   {mapping(base+256, 1, bytes), status.InvalidArgument},
		"less room than a granule":       {mapping(base, 1, mib), status.InvalidArgument},
		"onto memory":                    {mapping(base+6*mib, 1, bytes), status.InvalidArgument},
		"into memory":                    {mapping(base, 6*mib, bytes), status.InvalidArgument},
		"a huge number of bytes":         {mapping(base+8*mib, math.MaxUint64, math.MaxUint64), status.InvalidArgument},
		"more than the limit":            {mapping(base+8*mib, 5*mib, 32*mib), status.ResourceExhausted},
		"a region of no bytes":           {extending(0), status.InvalidArgument},
		"a crooked region":               {extending(100), status.InvalidArgument},
		"a region beyond the limit":      {extending(5*mib + 256), status.ResourceExhausted},
		"a region that granules serve":   {extending(4 * mib), status.ResourceExhausted},
		"unmapping where there is none":  {unmapping(base, 2*mib), status.InvalidArgument},
		"unmapping in part where it is":  {unmapping(base+4*mib, 6*mib), status.InvalidArgument},
		"unmapping out of the range":     {unmapping(base+bytes-2*mib, 4*mib), status.InvalidArgument},
		"unmapping below the range":      {unmapping(base-2*mib, 4*mib), status.InvalidArgument},
		"releasing where there is none":  {v.Release(base, 2*mib), status.InvalidArgument},
		"releasing half a granule":       {v.Release(base+4*mib, mib), status.InvalidArgument},
		"releasing nothing":              {v.Release(base+4*mib, 0), status.InvalidArgument},
		"releasing from within granules": {v.Release(base+5*mib, 3*mib), status.InvalidArgument},
	}
	for name, tt := range tests {
		require.Equal(t, tt.code, status.CodeOf(tt.err), "%s: %v", name, tt.err)
	}
	require.Equal(t, held, v.HeldBytes())
	require.NoError(t, v.Check())
	require.NoError(t, v.Close())
	require.NoError(t, device.Clean())
	_, _, err := v.Extend(256)
	for name, err := range map[string]error{
		"map": mapping(base, 1, bytes), "unmap": unmapping(base, 1), "release": v.Release(base, 2*mib), "extend": err,
	} {
		require.Equal(t, status.FailedPrecondition, status.CodeOf(err), name)
	}
}

// If the device refuses a range, one of half the size is tried.
func TestReservation(t *testing.T) {
	tests := map[string]struct {
		limit, asked uint64
		refused      int
		want         uint64 // 0: fails
	}{
		"eight times the limit":          {limit: 10 * mib, want: 80 * mib},
		"as asked":                       {limit: 10 * mib, asked: 30 * mib, want: 30 * mib},
		"whole granules":                 {limit: 10 * mib, asked: 31 * mib, want: 30 * mib},
		"at least one":                   {limit: 10 * mib, asked: 1, want: 2 * mib},
		"half":                           {limit: 10 * mib, refused: 1, want: 40 * mib},
		"an eighth":                      {limit: 10 * mib, refused: 3, want: 10 * mib},
		"nothing":                        {limit: 10 * mib, refused: 99},
		"not even one":                   {limit: 2 * mib, asked: 2 * mib, refused: 99},
		"a limit without an end":         {limit: math.MaxUint64, want: 1 << 46},
		"none for less than one granule": {limit: 2*mib - 1, refused: 99, want: 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			device := fakedevice.NewVirtual(1 << 40)
			refused := 0
			device.FailOp = func(op string) error {
				if op == "reserve" && refused < tt.refused {
					refused++
					return fakedevice.ErrInjected
				}
				return nil
			}
			v, err := suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: tt.limit, RangeBytes: tt.asked})
			if tt.want == 0 && tt.limit >= 2*mib {
				must.Fail(t, status.ResourceExhausted, err)
				require.LessOrEqual(t, refused, 8)
				require.NoError(t, device.Clean())
				return
			}
			require.NoError(t, err)
			_, bytes, _ := v.Range()
			require.Equal(t, tt.want, bytes)
			require.NoError(t, v.Close())
			require.NoError(t, device.Clean())
		})
	}
}

func TestDeviceWithoutGranularity(t *testing.T) {
	for _, granule := range []uint64{0, 100} {
		device := fakedevice.NewVirtual(1 << 40)
		device.GranuleBytes = granule
		_, err := suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: mib})
		must.Fail(t, status.Internal, err)
	}
	device := fakedevice.NewVirtual(1 << 40)
	device.FailOp = func(string) error { return fakedevice.ErrInjected }
	_, err := suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: mib})
	require.ErrorIs(t, err, fakedevice.ErrInjected)
}

// A failed Map changes nothing, whichever of its calls fails. If the undo fails too, what is left is counted, and the
// next Map uses it or Close frees it.
func TestMapIsUndone(t *testing.T) {
	const mib = 32 << 10 // as in walkVirtual
	tests := map[string]struct {
		fail   string
		after  int // calls of that kind that succeed
		undo   string
		parked uint64 // bytes that remain mapped
		strays uint64 // bytes that remain, not mapped
	}{
		"the first create":              {fail: "create"},
		"the last create":               {fail: "create", after: 17},
		"the first map":                 {fail: "map"},
		"the last map":                  {fail: "map", after: 17},
		"access":                        {fail: "access"},
		"access, then unmap":            {fail: "access", undo: "unmap", parked: 36 * mib},
		"access, then release":          {fail: "access", undo: "release", strays: 36 * mib},
		"the last map, then unmap":      {fail: "map", after: 17, undo: "unmap", parked: 34 * mib},
		"the last map, then release":    {fail: "map", after: 17, undo: "release", strays: 36 * mib},
		"the last create, then release": {fail: "create", after: 17, undo: "release", strays: 34 * mib},
		"the last map, then all of both": {fail: "map", after: 17, undo: "unmap release", parked: 34 * mib,
			strays: 2 * mib},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			device := fakedevice.NewVirtual(1 << 40)
			device.GranuleBytes = 2 * mib
			v := newVirtual(t, device, 100*mib)
			base, bytes, _ := v.Range()
			must.OK(v.Map(base, 2*mib, bytes))(t)
			device.Write(base, 2*mib, 7)

			calls, failed := 0, false
			device.FailOp = func(op string) error {
				switch {
				case op == tt.fail && calls == tt.after:
					failed = true
					return fakedevice.ErrInjected
				case op == tt.fail:
					calls++
				case failed && slices.Contains(strings.Fields(tt.undo), op):
					return fakedevice.ErrInjected
				}
				return nil
			}
			device.TakeOps()
			_, err := v.Map(base+2*mib, 36*mib, bytes)
			must.Fail(t, status.ResourceExhausted, err)
			require.ErrorIs(t, err, fakedevice.ErrInjected)
			require.NoError(t, v.Check())
			require.Equal(t, 2*mib+tt.parked+tt.strays, v.HeldBytes())
			require.Equal(t, v.HeldBytes(), device.LiveBytes)
			require.True(t, device.Holds(base, 2*mib, 7))
			requireReverse(t, device.TakeOps())

			device.FailOp = nil
			require.Equal(t, uint64(36*mib), must.OK(v.Map(base+2*mib, 36*mib, bytes))(t))
			require.Equal(t, 38*mib+tt.strays, v.HeldBytes(), "what was parked is used")
			device.Write(base+2*mib, 36*mib, 8)
			require.NoError(t, v.Check())
			require.NoError(t, v.Close())
			require.NoError(t, device.Clean())
		})
	}
}

// Half-mapped segments: a large step fails at each of its calls in turn, with handles of several granules. What was
// mapped until then is unmapped, nothing else is, and the same step then succeeds.
func TestAHalfMappedSegmentIsUndone(t *testing.T) {
	const mib = 32 << 10 // as in walkVirtual
	for _, op := range []string{"create", "map", "access"} {
		for after := 0; ; after++ {
			device := fakedevice.NewVirtual(1 << 40)
			device.GranuleBytes = 2 * mib
			v := must.OK(suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: 101 * mib, StepBytes: 32 * mib,
				HandleBytes: 16 * mib}))(t)
			base, bytes, _ := v.Range()
			must.OK(v.Map(base, 6*mib, bytes))(t)
			device.Write(base, 6*mib, 7)
			calls := 0
			device.FailOp = func(kind string) error {
				if kind == op {
					calls++
				}
				if kind == op && calls == after+1 {
					return fakedevice.ErrInjected
				}
				return nil
			}
			device.TakeOps()
			_, err := v.Map(base+6*mib, 70*mib, bytes)
			if err == nil {
				require.Equal(t, calls, after, "every call has failed once")
				require.NoError(t, v.Close())
				break
			}
			require.ErrorIs(t, err, fakedevice.ErrInjected)
			requireReverse(t, device.TakeOps())
			require.NoError(t, v.Check())
			require.Equal(t, uint64(6*mib), v.HeldBytes())
			require.Equal(t, v.HeldBytes(), device.LiveBytes)
			require.True(t, device.Holds(base, 6*mib, 7))
			device.FailOp = nil
			require.Equal(t, uint64(70*mib), must.OK(v.Map(base+6*mib, 70*mib, bytes))(t))
			device.Write(base+6*mib, 70*mib, 8)
			require.NoError(t, v.Close())
			require.NoError(t, device.Clean())
		}
	}
}

// requireReverse checks that what was mapped is unmapped in the reverse order.
func requireReverse(t *testing.T, ops []string) {
	var mapped, unmapped []string
	for _, op := range ops {
		if bytes, ok := strings.CutPrefix(op, "map "); ok && !strings.HasSuffix(op, "refused") {
			mapped = append(mapped, bytes)
		}
		if bytes, ok := strings.CutPrefix(op, "unmap "); ok {
			unmapped = append(unmapped, strings.TrimSuffix(bytes, " refused"))
		}
	}
	slices.Reverse(unmapped)
	require.Equal(t, len(mapped), len(unmapped))
	for i := range mapped {
		require.Equal(t, strings.Split(mapped[i], "@")[0], strings.Split(unmapped[i], "@")[0])
	}
}

// What the device refuses to free stays in the accounting until Close frees it.
func TestRefusedReleases(t *testing.T) {
	device := fakedevice.NewVirtual(1 << 40)
	v := newVirtual(t, device, 9*mib)
	base, bytes, _ := v.Range()
	must.OK(v.Map(base, 8*mib, bytes))(t)
	rest, _ := must.OK2(v.Extend(256))(t)

	failing(device, "unmap")
	from, to, err := v.Unmap(base, 2*mib)
	must.Fail(t, status.Internal, err)
	require.Equal(t, from, to, "it is still the caller's")
	must.Fail(t, status.Internal, v.Release(base, 2*mib))
	failing(device, "release")
	from, to, err = v.Unmap(base+2*mib, 2*mib)
	must.Fail(t, status.Internal, err)
	require.Equal(t, uint64(2*mib), to-from, "it is gone")
	failing(device, "free")
	must.Fail(t, status.Internal, v.Release(rest, mib))
	require.Equal(t, uint64(9*mib), v.HeldBytes())
	require.NoError(t, v.Check())

	failing(device, "")
	require.Equal(t, uint64(2*mib), must.OK(v.Map(base, 2*mib, 2*mib))(t, "nothing is created: it was there"))
	must.Fail(t, status.ResourceExhausted, must.Err(v.Map(base+2*mib, 2*mib, 2*mib)))
	failing(device, "release free")
	require.Zero(t, v.AvailableBytes())
	failing(device, "free")
	require.Equal(t, uint64(2*mib), v.AvailableBytes(), "what was refused is offered again")
	must.OK(v.Map(base+2*mib, 2*mib, 2*mib))(t)
	require.Equal(t, uint64(9*mib), v.HeldBytes())

	failing(device, "unmap release free unreserve")
	must.Fail(t, status.Internal, v.Close())
	require.Equal(t, uint64(9*mib), v.HeldBytes())
	require.NoError(t, v.Check())
	failing(device, "unreserve")
	must.Fail(t, status.Internal, v.Close())
	require.Zero(t, device.LiveBytes)
	failing(device, "")
	require.NoError(t, v.Close())
	require.NoError(t, device.Clean())
}

// Every call of the device fails once, in turn, in a program that grows, trims, shares and closes.
func TestWalkOfVirtualFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	for name, always := range map[string]bool{"one call fails": false, "all calls fail from one on": true} {
		t.Run(name, func(t *testing.T) {
			at := 0
			for walkVirtual(t, at, always) {
				at++
				require.Less(t, at, 500)
			}
			require.Greater(t, at, 40)
		})
	}
}

func walkVirtual(t *testing.T, at int, always bool) (failed bool) {
	const mib = 32 << 10 // all sizes are smaller than they look: contents are checked after each step
	device := fakedevice.NewVirtual(1 << 40)
	device.GranuleBytes = 2 * mib
	device.Fail = func(call int) error {
		if call == at || always && call > at {
			failed = true
			return fakedevice.ErrInjected
		}
		return nil
	}
	limit := uint64(49 * mib)
	v, err := suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: limit})
	if err != nil {
		require.True(t, failed)
		require.NoError(t, device.Clean())
		return true
	}
	a := must.OK(bfc.New(v, bfc.Options{GarbageCollect: true}))(t)
	var live []bfc.Block
	check := func() {
		require.NoError(t, a.Check())
		require.NoError(t, v.Check())
		require.LessOrEqual(t, device.LiveBytes, limit)
		require.Equal(t, device.LiveBytes, v.HeldBytes())
		for _, b := range live {
			require.True(t, device.Holds(b.Addr, b.Bytes, b.ID))
		}
	}
	for _, bytes := range []uint64{mib, 3 * mib, 40 * mib, 0, 1000, 34 * mib, mib, 0, 9 * mib, 8 * mib, 49 * mib} {
		if bytes == 0 { // every other block is freed, and then the rest
			for i := 0; i < len(live); i++ {
				require.NoError(t, a.FreeID(live[i].Addr, live[i].ID))
				live = slices.Delete(live, i, i+1)
			}
			_, _ = a.Trim()
			check()
			continue
		}
		b, err := a.Allocate(bytes)
		if err == nil {
			device.Write(b.Addr, b.Bytes, b.ID)
			live = append(live, b)
		} else {
			must.Fail(t, status.ResourceExhausted, err)
		}
		check()
	}
	_ = a.Close()
	_ = v.Close()
	device.Fail = nil
	require.NoError(t, v.Close())
	require.NoError(t, device.Clean())
	return failed
}

// Random programs: live blocks keep their contents, nothing is mapped twice (the device checks that), the accounting is
// exact.
func TestVirtualPoolAgainstItsDevice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		device := fakedevice.NewVirtual(1 << 40)
		device.GranuleBytes = 2048
		limit := rapid.Uint64Range(1, 200*1024).Draw(t, "limit")
		v := must.OK(suballoc.NewVirtual(device, suballoc.VirtualOptions{LimitBytes: limit,
			RangeBytes: rapid.Uint64Range(2048, 1<<20).Draw(t, "range"),
			StepBytes:  rapid.Uint64Range(2048, 64*1024).Draw(t, "step"), HandleBytes: rapid.Uint64Range(2048,
				32*1024).Draw(t, "handle")}))(t)
		a := must.OK(bfc.New(v, bfc.Options{GarbageCollect: rapid.Bool().Draw(t, "collect")}))(t)
		if rapid.Bool().Draw(t, "the device refuses") {
			n := rapid.IntRange(1, 9).Draw(t, "each call in")
			device.Fail = func(call int) error {
				if call%n == 0 {
					return fakedevice.ErrInjected
				}
				return nil
			}
		}
		var live []bfc.Block
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				for range rapid.IntRange(1, 5).Draw(t, "times") {
					bytes := rapid.Uint64Range(1, limit/4+256).Draw(t, "bytes")
					b, err := a.Allocate(bytes)
					if err != nil {
						must.Fail(t, status.ResourceExhausted, err)
						continue
					}
					device.Write(b.Addr, b.Bytes, b.ID)
					live = append(live, b)
				}
			},
			"free": func(t *rapid.T) {
				for range rapid.IntRange(0, min(len(live), 5)).Draw(t, "times") {
					at := rapid.IntRange(0, len(live)-1).Draw(t, "which")
					require.True(t, device.Holds(live[at].Addr, live[at].Bytes, live[at].ID))
					require.NoError(t, a.Free(live[at].Addr))
					live = slices.Delete(live, at, at+1)
				}
			},
			"trim": func(t *rapid.T) {
				before := a.Stats()
				bytes, _ := a.Trim()
				after := a.Stats()
				require.Equal(t, before.BytesReserved-bytes, after.BytesReserved)
				require.Equal(t, before.BytesInUse, after.BytesInUse)
			},
			"": func(t *rapid.T) {
				require.NoError(t, a.Check())
				require.NoError(t, v.Check())
				require.LessOrEqual(t, device.PeakBytes, limit)
				require.Equal(t, device.LiveBytes, v.HeldBytes())
				for _, b := range live {
					require.True(t, device.Holds(b.Addr, b.Bytes, b.ID))
				}
				if device.Fail == nil {
					require.Equal(t, a.Stats().BytesReserved, v.HeldBytes())
				}
			},
		})
		device.Fail = nil
		require.NoError(t, a.Close())
		require.NoError(t, v.Close())
		require.NoError(t, device.Clean())
	})
}

// Two pools on one device that fails one call in fifty: neither ever holds more than its limit, not even for a moment.
func TestLimitIsNeverExceeded(t *testing.T) {
	t.Run("every call may fail", func(t *testing.T) { fillAndDrain(t, "create map access alloc unmap release free") })
	t.Run("only taking may fail", func(t *testing.T) { fillAndDrain(t, "create map access alloc") })
}

func fillAndDrain(t *testing.T, mayFail string) {
	const perPool = 25_000
	device := fakedevice.NewVirtual(20 * mib)
	device.GranuleBytes = 64 << 10
	device.NoCalls = true
	random := rand.New(rand.NewPCG(1, 2))
	limits := []uint64{11*mib + 300, 13*mib - 5}
	var wg sync.WaitGroup
	pools, meters := make([]*suballoc.Virtual, len(limits)), make([]*meter, len(limits))
	for i, limit := range limits {
		meters[i] = &meter{VirtualDevice: device, sizes: map[uint64]uint64{}}

		pools[i] = must.OK(suballoc.NewVirtual(meters[i], suballoc.VirtualOptions{LimitBytes: limit}))(t)
	}
	device.FailOp = func(op string) error { // under the device's lock
		if random.IntN(50) == 0 && slices.Contains(strings.Fields(mayFail), op) {
			return fakedevice.ErrInjected
		}
		return nil
	}
	var allocators []*bfc.Allocator
	for i, v := range pools {
		a := must.OK(bfc.New(v, bfc.Options{GarbageCollect: i == 0}))(t)
		allocators = append(allocators, a)
		wg.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(i)))
			var live []bfc.Block
			for range perPool {
				switch n := random.IntN(100); {
				case n == 0:
					_, _ = a.Trim()
				case n < 50 && len(live) > 0:
					at := random.IntN(len(live))
					if a.Free(live[at].Addr) != nil {
						t.Error("a live block is not there")
					}
					live = slices.Delete(live, at, at+1)
				default:
					if b, err := a.Allocate(1 + random.Uint64N(600<<10)); err == nil {
						live = append(live, b)
					}
				}
			}
			for _, b := range live {
				if a.Free(b.Addr) != nil {
					t.Error("a live block is not there")
				}
			}
			if err := a.Check(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	device.FailOp = nil
	for _, a := range allocators {
		must.OK(a.Trim())(t)
	}
	for i, a := range allocators { // one after the other, until full
		var err error
		for err == nil {
			_, err = a.Allocate(256)
		}
		if !strings.Contains(mayFail, "release") { // otherwise the device keeps what it refused to free
			require.Equal(t, limits[i]/256*256, meters[i].held)
		}
		require.NoError(t, a.Close())
	}
	var held uint64
	for i, v := range pools {
		require.NoError(t, v.Check())
		require.Equal(t, meters[i].held, v.HeldBytes())
		require.LessOrEqual(t, meters[i].peak, limits[i])
		held += v.HeldBytes()
	}
	require.Equal(t, device.LiveBytes, held)
	for _, v := range pools {
		require.NoError(t, v.Close())
	}
	require.NoError(t, device.Clean())
}

// meter counts what one pool has allocated from a device. Only that pool calls it, under its lock.
type meter struct {
	*fakedevice.VirtualDevice
	sizes      map[uint64]uint64 // of handles and addresses
	held, peak uint64
}

func (m *meter) take(name, bytes uint64, err error) (uint64, error) {
	if err == nil {
		m.sizes[name] = bytes
		m.held += bytes
		m.peak = max(m.peak, m.held)
	}
	return name, err
}

func (m *meter) give(name uint64, err error) error {
	if err == nil {
		m.held -= m.sizes[name]
	}
	return err
}

func (m *meter) MemCreate(bytes uint64) (uint64, error) {
	handle, err := m.VirtualDevice.MemCreate(bytes)
	return m.take(handle, bytes, err)
}

func (m *meter) MemAlloc(bytes uint64) (uint64, error) {
	addr, err := m.VirtualDevice.MemAlloc(bytes)
	return m.take(addr, bytes, err)
}

func (m *meter) MemRelease(handle uint64) error {
	return m.give(handle, m.VirtualDevice.MemRelease(handle))
}
func (m *meter) MemFree(addr uint64) error { return m.give(addr, m.VirtualDevice.MemFree(addr)) }
