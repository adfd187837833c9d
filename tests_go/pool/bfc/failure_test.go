package bfc_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every call of the device fails once, in turn, in a run that extends, releases regions and closes. A failed run leaves
// exact accounting, and nothing on the device except what the device itself refused to free.
func TestWalkOfFailures(t *testing.T) {
	for name, always := range map[string]bool{"one call fails": false, "all calls fail from one on": true} {
		t.Run(name, func(t *testing.T) {
			failed := 1
			for at := 0; failed > 0; at++ {
				failed = walk(t, at, always)
				require.Less(t, at, 200)
			}
		})
	}
}

// walk fails call number at, or all calls from there on, and returns how many calls failed.
func walk(t *testing.T, at int, always bool) (failed int) {
	device := fakedevice.New(40 * mib)
	device.Fail = func(call int) error {
		if call == at || always && call > at {
			failed++
			return fakedevice.ErrInjected
		}
		return nil
	}
	sub := suballoc.NewRegions(device, suballoc.Options{LimitBytes: 30 * mib, Growth: true})
	a := must.OK(bfc.New(sub, bfc.Options{GarbageCollect: true}))(t)
	var live []bfc.Block
	var inUse uint64
	for _, bytes := range []uint64{2 * mib, 4 * mib, 8 * mib, 16 * mib, 0, 20 * mib, 1000, 0, 30 * mib} {
		if bytes == 0 { // free everything, so that the next request releases regions
			for _, b := range live {
				require.NoError(t, a.FreeID(b.Addr, b.ID))
			}
			live, inUse = nil, 0
			continue
		}
		before := a.Stats()
		block, err := a.Allocate(bytes)
		if err != nil {
			must.Fail(t, status.ResourceExhausted, err)
			require.Equal(t, before.NumAllocs, a.Stats().NumAllocs)
		} else {
			live, inUse = append(live, block), inUse+block.Bytes
		}
		require.Equal(t, inUse, a.Stats().BytesInUse)
		require.LessOrEqual(t, device.LiveBytes, uint64(30*mib))
		require.NoError(t, a.Check())
	}
	refused := func() (bytes uint64) { // what the device refused to free
		for _, call := range device.Calls {
			if call.Op == "unmap" && call.Err != nil {
				bytes += call.Bytes
			}
		}
		return bytes
	}
	require.Equal(t, device.LiveBytes, a.Stats().BytesReserved+refused())
	lostBefore := refused()
	err := a.Close()
	require.Equal(t, refused() > lostBefore, err != nil, "Close reports what was not freed")
	require.Equal(t, refused(), device.LiveBytes)
	require.Equal(t, 30*mib-refused(), sub.AvailableBytes())
	return failed
}

// A sub-allocator that breaks its contract makes an allocation fail, and its region is released.
func TestSubAllocatorThatBreaksItsPromise(t *testing.T) {
	tests := map[string]struct{ addr, bytes uint64 }{
		"address 0":                {0, 4096},
		"a crooked address":        {fakedevice.Base + 8, 4096},
		"a crooked size":           {fakedevice.Base, 4097},
		"too small":                {fakedevice.Base, 768},
		"more than the limit":      {fakedevice.Base, 2 * mib},
		"beyond the last address":  {1<<64 - 4096, 8192},
		"up to the last address":   {1<<64 - 4096, 4096},
		"over the region above":    {fakedevice.Base + 64*mib - 2048, 4096},
		"over the region below":    {fakedevice.Base + 64*mib + 2048, 4096},
		"the same region as given": {fakedevice.Base + 64*mib, 4096},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sub := &scripted{limit: mib, answers: [][2]uint64{{fakedevice.Base + 64*mib, 4096}, {tt.addr, tt.bytes}}}
			a := must.OK(bfc.New(sub, bfc.Options{}))(t)
			allocate(t, a, 4096)
			before := a.Stats()
			must.Fail(t, status.ResourceExhausted, must.Err(a.Allocate(1000)), "unusable")
			require.Equal(t, [][2]uint64{{tt.addr, tt.bytes}}, sub.released)
			require.Equal(t, before, a.Stats())
			require.NoError(t, a.Check())
			require.NoError(t, a.Close())
			require.Len(t, sub.released, 2)
		})
	}
}

type scripted struct {
	limit    uint64
	answers  [][2]uint64
	released [][2]uint64
}

func (s *scripted) Extend(uint64) (addr, bytes uint64, err error) {
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer[0], answer[1], nil
}

func (s *scripted) Release(addr, bytes uint64) error {
	s.released = append(s.released, [2]uint64{addr, bytes})
	return nil
}

func (s *scripted) AvailableBytes() uint64 { return s.limit - 4096 }
func (s *scripted) LimitBytes() uint64     { return s.limit }

// TensorFlow's allocator retried forever on a device that refuses everything, because nine tenths of 2304 bytes round
// up to 2304 bytes. The fuse fails the test instead of hanging it.
func TestSmallRequestEndsWhenTheDeviceAlwaysRefuses(t *testing.T) {
	for _, growth := range []bool{false, true} {
		for _, bytes := range []uint64{1, 256, 2048, 2304, 2305, 2560} {
			device := fakedevice.New(1 << 30)
			device.Fail = func(call int) error {
				require.Less(t, call, 1000, "the back-off does not end")
				return fakedevice.ErrInjected
			}
			a := newAllocator(t, suballoc.NewRegions(device, suballoc.Options{LimitBytes: 1 << 30, Growth: growth}),
				bfc.Options{GarbageCollect: true})
			_, err := a.Allocate(bytes)
			require.Equal(t, bfc.DeviceFull, outOfMemory(t, err).Cause)
			require.ErrorIs(t, err, fakedevice.ErrInjected)
		}
	}
}

// One sequence, repeated: what was served in the first round is served in every round.
func TestNoCreepingFragmentation(t *testing.T) {
	device := fakedevice.New(1 << 30)
	a := newAllocator(t, suballoc.NewRegions(device, suballoc.Options{LimitBytes: 64 * mib, Growth: true}),
		bfc.Options{GarbageCollect: true})
	random := rand.New(rand.NewPCG(1, 2))
	var sizes []uint64
	for range 200 {
		sizes = append(sizes, 1+random.Uint64N(300_000))
	}
	order := random.Perm(len(sizes))
	for range 200 {
		addrs := make([]uint64, len(sizes))
		for i, bytes := range sizes {
			addrs[i] = allocate(t, a, bytes).Addr
		}
		for _, i := range order {
			require.NoError(t, a.Free(addrs[i]))
		}
	}
	require.NoError(t, a.Check())
}

// Random operations under a limit, for each way to grow, with a device that fails allocations and frees at random.
func TestLimitHoldsWhateverTheDeviceDoes(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := 20*mib + random.Uint64N(mib)
		device := fakedevice.New(24 * mib)
		device.Fail = func(int) error {
			if random.IntN(5) == 0 {
				return fakedevice.ErrInjected
			}
			return nil
		}
		sub := suballoc.NewRegions(device, suballoc.Options{LimitBytes: limit, Growth: seed%2 == 0})
		a, err := bfc.New(sub, bfc.Options{GarbageCollect: seed%4 < 2, Split: bfc.SplitRule{TensorFlow: seed < 4}})
		require.NoError(t, err)
		var live []bfc.Block
		for i := range 20_000 {
			if len(live) > 0 && random.IntN(100) < 48 {
				at := random.IntN(len(live))
				require.NoError(t, a.FreeID(live[at].Addr, live[at].ID))
				live[at] = live[len(live)-1]
				live = live[:len(live)-1]
			} else if block, err := a.Allocate(1 + random.Uint64N(1<<random.IntN(23))); err == nil {
				live = append(live, block)
			}
			if i%1000 == 0 {
				require.NoError(t, a.Check())
			}
		}
		require.NotZero(t, a.Stats().NumAllocs)
		require.LessOrEqual(t, device.PeakBytes, limit)
		device.Fail = nil
		require.NoError(t, a.Close())
		require.Equal(t, (limit-device.LiveBytes)/256*256, sub.AvailableBytes(),
			"what the device kept counts against the limit")
	}
}

func newCounted(t *testing.T) *bfc.Allocator {
	device := fakedevice.New(64 * mib)
	a, err := bfc.New(suballoc.NewRegions(device, suballoc.Options{LimitBytes: 32 * mib, Growth: true}), bfc.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// The n-th allocation fails, and no other one does; nothing has changed for it, and the fast path is taken again.
func TestTheNthAllocationFails(t *testing.T) {
	for n := uint64(1); n <= 5; n++ {
		a := newCounted(t)
		must.OK(a.Allocate(100))(t)
		f := bfc.NewFailure(n)
		a.Inject(f)
		for i := uint64(1); i <= 7; i++ {
			require.Zero(t, must.OK(a.Allocate(0))(t))
			before := a.Stats()
			_, err := a.Allocate(1000)
			require.NoError(t, a.Check())
			require.Equal(t, min(i, n), f.Counted())
			if i != n {
				require.NoError(t, err, "allocation %d of %d", i, n)
				continue
			}
			require.Equal(t, before, a.Stats())
			must.Fail(t, status.ResourceExhausted, err)
			require.True(t, bfc.IsInjected(err))
			var oom *bfc.OutOfMemory
			require.True(t, errors.As(err, &oom))
			require.Equal(t, bfc.Injected, oom.Cause)
			require.Equal(t, uint64(1000), oom.Requested)
			require.Contains(t, err.Error(), "out of memory")
			require.Contains(t, err.Error(), "injected")
		}
	}
}

func TestAllocatorsThatShareAFailureCountTogether(t *testing.T) {
	first, second := newCounted(t), newCounted(t)
	f := bfc.NewFailure(3)
	first.Inject(f)
	second.Inject(f)
	for i, a := range []*bfc.Allocator{first, second, first, second, first, second} {
		_, err := a.Allocate(1000)
		require.Equal(t, i == 2, err != nil, "allocation %d: %v", i+1, err)
	}
	require.Equal(t, uint64(3), f.Counted())
}

func TestAFailureCanBeTakenBack(t *testing.T) {
	a := newCounted(t)
	f := bfc.NewFailure(2)
	a.Inject(f)
	must.OK(a.Allocate(1000))(t)
	a.Inject(nil)
	for range 5 {
		must.OK(a.Allocate(1000))(t)
	}
	require.Equal(t, uint64(1), f.Counted())
}

// A real failure is not called injected, also while a Failure counts.
func TestRealFailuresWhileCounting(t *testing.T) {
	a := newCounted(t)
	a.Inject(bfc.NewFailure(100))
	_, err := a.Allocate(33 * mib)
	must.Fail(t, status.ResourceExhausted, err)
	require.False(t, bfc.IsInjected(err))
}

// On several streams, where no allocation takes the fast path anyway.
func TestFailuresOfSharedAllocators(t *testing.T) {
	a := newCounted(t)
	f := bfc.NewFailure(2)
	a.Inject(f)
	must.OK(a.AllocateFor(0, 1000, 0))(t)
	require.True(t, bfc.IsInjected(must.Err(a.AllocateFor(0, 1000, 0))))
	must.OK(a.AllocateFor(0, 1000, 0))(t)
}

// Of many threads on two allocators exactly one fails.
func TestOneFailureAmongThreads(t *testing.T) {
	allocators := []*bfc.Allocator{newCounted(t), newCounted(t)}
	f := bfc.NewFailure(777)
	for _, a := range allocators {
		a.Inject(f)
	}
	var failed atomic.Int64
	var threads sync.WaitGroup
	for i := range 8 {
		threads.Go(func() {
			for range 500 {
				block, err := allocators[i%2].Allocate(256)
				if err != nil {
					failed.Add(1)
					if !bfc.IsInjected(err) {
						t.Error(err)
					}
					continue
				}
				if err := allocators[i%2].Free(block.Addr); err != nil {
					t.Error(err)
				}
			}
		})
	}
	threads.Wait()
	require.Equal(t, int64(1), failed.Load())
	require.Equal(t, uint64(777), f.Counted())
}
