package bfc_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

func newCounted(t *testing.T) *bfc.Allocator {
	t.Helper()
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
	must.OK(a.AllocateOn(0, 1000))(t)
	require.True(t, bfc.IsInjected(must.Err(a.AllocateOn(0, 1000))))
	must.OK(a.AllocateOn(0, 1000))(t)
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
