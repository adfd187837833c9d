package devmgr_test

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// soon is the longest wait for what must happen at once; late is never meant to pass.
const (
	soon = 20 * time.Second
	late = time.Hour
)

// requireSoon waits for all the goroutines of a group.
func requireSoon(t *testing.T, done *sync.WaitGroup, message string) {
	all := make(chan struct{})
	go func() {
		done.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(soon):
		require.FailNow(t, message)
	}
}

func TestWaitForFreeIsWokenByAFree(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{10, 10})
	for _, free := range []func(addr, id uint64) error{
		func(addr, _ uint64) error { return m.Free(addr) },
		m.FreeID,
	} {
		block := allocate(t, m, 0, 10*mib)
		seen := must.OK(m.Frees(0))(t)
		var waiters sync.WaitGroup
		for range 4 {
			waiters.Go(func() {
				if err := m.WaitForFree(0, seen, late); err != nil {
					t.Error(err)
				}
			})
		}
		require.NoError(t, free(block.Addr, block.ID))
		requireSoon(t, &waiters, "a free did not wake those who wait for it")
		require.Equal(t, seen+1, must.OK(m.Frees(0))(t))
		require.NoError(t, m.WaitForFree(0, seen, late), "that free was before the wait, which ends at once")
	}
}

func TestWaitForFreeEndsInTime(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{10, 10})
	seen := must.OK(m.Frees(0))(t)
	for _, timeout := range []time.Duration{math.MinInt64, -1, 0, 1, 20 * time.Millisecond} {
		begin := time.Now()
		require.NoError(t, m.WaitForFree(0, seen, timeout))
		require.GreaterOrEqual(t, time.Since(begin), timeout)
	}
	block := allocate(t, m, 1, 1)
	require.NoError(t, m.Free(block.Addr))
	begin := time.Now()
	require.NoError(t, m.WaitForFree(0, seen, 20*time.Millisecond))
	require.GreaterOrEqual(t, time.Since(begin), 20*time.Millisecond, "a free on another logical GPU woke us")
	require.NoError(t, m.WaitForFree(0, math.MaxUint64, late), "a number that never was is not the present one")
	must.Fail(t, status.InvalidArgument, m.WaitForFree(2, 0, late))
}

// All of them need all the memory. If one wake-up gets lost, all of them wait for an hour.
func TestNoWakeUpIsLost(t *testing.T) {
	const workers, rounds = 8, 300
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{1})
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for range rounds {
				block, err := allocateOrWait(m, mib)
				if err == nil {
					err = m.FreeID(block.Addr, block.ID)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	requireSoon(t, &done, "a thread waits for a free that has happened")
	require.EqualValues(t, workers*rounds, stats(t, m, "GPU:0").NumAllocs)
	require.Equal(t, mib, stats(t, m, "GPU:0").PeakBytesInUse)
}

// A waiter may be at any step of its wait when Close comes. With many waiters and few processors, some are stopped in
// the middle of it.
func TestCloseEndsEveryWait(t *testing.T) {
	const waiters, rounds = 30, 1500
	d := newDriver(t, "T4", simulated.Options{})
	for range rounds {
		m := must.OK(devmgr.New(d, nil))(t)
		must.OK(m.Initialize(nil, "", nil))(t)
		seen := must.OK(m.Frees(0))(t)
		var done sync.WaitGroup
		var started atomic.Int32
		for range waiters {
			done.Go(func() {
				started.Add(1)
				if err := m.WaitForFree(0, seen, late); status.CodeOf(err) != status.FailedPrecondition {
					t.Errorf("the wait ended with %v", err)
				}
			})
		}
		for started.Load() < waiters/2 {
			runtime.Gosched()
		}
		require.NoError(t, m.Close(false))
		requireSoon(t, &done, "Close left a thread waiting")
	}
	d.requireNothingLeft(t)
}
