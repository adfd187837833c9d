package devmgr_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// allocateOrWait allocates on GPU:0, however long it takes.
func allocateOrWait(m *devmgr.Manager, bytes uint64) (bfc.Block, error) {
	for {
		seen, err := m.Frees(0)
		if err != nil {
			return bfc.Block{}, err
		}
		block, err := m.Allocate(0, bytes, 0)
		if status.CodeOf(err) != status.ResourceExhausted {
			return block, err
		}
		if err := m.WaitForFree(0, seen, late); err != nil {
			return bfc.Block{}, err
		}
	}
}

func TestBooksAreExactAfterManyThreads(t *testing.T) {
	const workers, rounds = 8, 400
	m, d := initialized(t, "T4:64MiB", simulated.Options{}, config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
		[]float64{24, 24, 24})
	var allocs [3]atomic.Uint64
	var kept sync.Map // address -> logical GPU
	kept.Store(allocate(t, m, 0, 1).Addr, 0)
	allocs[0].Add(1)
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(w)))
			var mine []bfc.Block
			for range rounds {
				number := random.IntN(3)
				block, err := m.Allocate(number, 1+random.Uint64N(mib), 0)
				switch {
				case err == nil:
					allocs[number].Add(1)
					if _, twice := kept.LoadOrStore(block.Addr, number); twice {
						t.Errorf("%#x was handed out twice", block.Addr)
					}
					mine = append(mine, block)
				case status.CodeOf(err) != status.ResourceExhausted:
					t.Error(err)
				}
				if len(mine) > 5 {
					i := random.IntN(len(mine))
					kept.Delete(mine[i].Addr)
					if err := m.FreeID(mine[i].Addr, mine[i].ID); err != nil {
						t.Error(err)
					}
					mine = append(mine[:i], mine[i+1:]...)
				}
			}
		})
	}
	done.Go(func() {
		if err := look(m); err != nil {
			t.Error(err)
		}
	})
	requireSoon(t, &done, "threads that allocate and free did not end")

	require.NoError(t, m.Check())
	var blocks [3]uint64
	kept.Range(func(addr, number any) bool {
		blocks[number.(int)]++
		require.NoError(t, m.Free(addr.(uint64)))
		return true
	})
	var reserved uint64
	for number := range 3 {
		s := stats(t, m, fmt.Sprintf("GPU:%d", number))
		require.Equal(t, allocs[number].Load(), s.NumAllocs)
		require.NotZero(t, blocks[number])
		require.Zero(t, s.BytesInUse)
		require.LessOrEqual(t, s.PeakBytesReserved, 24*mib)
		reserved += s.BytesReserved
	}
	require.Equal(t, reserved, d.taken(t, 0))
}

// look calls every getter, again and again. A block is live all the while.
func look(m *devmgr.Manager) error {
	for range 50 {
		for _, name := range []string{"GPU:0", "GPU:1", "GPU:2"} {
			id, _, err := m.StartPeak(0)
			if err != nil {
				return err
			}
			if current, peak, err := m.MemoryInfo(name); err != nil || current > peak {
				return fmt.Errorf("%d bytes in use, %d at the peak: %w", current, peak, err)
			}
			if _, err := m.MemoryMap(name); err != nil {
				return err
			}
			if _, err := m.StopPeak(0, id); err != nil {
				return err
			}
		}
		if err := m.Check(); err != nil {
			return err
		}
		m.HasNotices()
		m.DrainNotices()
		if m.Close(false) == nil {
			return errors.New("closed under live blocks")
		}
	}
	return nil
}

// process does what a Manager's owner does: it has a Manager, and replaces it now and then while other threads work.
type process struct {
	driver  *driver
	current atomic.Pointer[devmgr.Manager]
	mu      sync.Mutex // serializes the replacements
}

func (p *process) replace(force bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.current.Load().Close(force); err != nil {
		return err
	}
	m, err := devmgr.New(p.driver, nil)
	if err != nil {
		return err
	}
	p.current.Store(m)
	return nil
}

// All at once: some goroutines work, some read, some initialize, one resets. A call returns its result or, if its
// Manager is being replaced, FailedPrecondition, or State after it was initialized.
func TestResetBesideEverything(t *testing.T) {
	p := &process{driver: newDriver(t, "2xT4:64MiB", simulated.Options{})}
	p.current.Store(must.OK(devmgr.New(p.driver, nil))(t))

	var done sync.WaitGroup
	var served, resets atomic.Int64
	var over atomic.Bool
	fine := func(err error, also ...status.Code) bool {
		if err == nil {
			return true
		}
		code := status.CodeOf(err)
		for _, expected := range append(also, status.FailedPrecondition, status.State) {
			if code == expected {
				return false
			}
		}
		t.Errorf("unexpected: %v", err)
		return false
	}
	for range 4 {
		done.Go(func() {
			for !over.Load() {
				m := p.current.Load()
				fine(must.Err(m.Initialize(nil, "race.py:1 (test)", nil)))
				block, err := m.Allocate(0, 5*mib, 0)
				if fine(err, status.ResourceExhausted) {
					served.Add(1)
					fine(m.CopyFromHost(block.Addr, block.ID, 0, []byte("hello")))
					fine(m.FreeID(block.Addr, block.ID))
				}
			}
		})
	}
	for range 2 {
		done.Go(func() {
			for !over.Load() {
				m := p.current.Load()
				id, _, err := m.StartPeak(1)
				if fine(err) {
					_, err = m.StopPeak(1, id)
					fine(err)
				}
				fine(must.Err(m.MemoryMap("GPU:1")))
				fine(must.Err(m.LogicalDevices()))
				block, err := m.AllocateKnowing(1, m.LogicalGPUs()-1, 7, devmgr.Uncaptured|devmgr.Lasting, 1, 0)
				if fine(err, status.InvalidArgument) {
					fine(m.Free(block.Addr))
				}
				fine(m.Check())
				fine(m.Inspect(func(s *config.State) error { s.Physical(); return nil }))
				fine(m.Configure(func(s *config.State) error {
					gpus := s.Physical()[1:]
					return errors.Join(s.SetGrowth(config.Arg{Device: gpus[0]}, 1, ""),
						s.SetGrowth(config.Arg{Device: gpus[1]}, 1, ""))
				}))
			}
		})
	}
	done.Go(func() {
		defer over.Store(true)
		for i := range 150 {
			before := served.Load()
			if fine(p.replace(i%3 == 0)) {
				resets.Add(1)
			}
			for begin := time.Now(); served.Load() == before && time.Since(begin) < soon; {
				runtime.Gosched() // until another goroutine has used the new one
			}
		}
	})
	requireSoon(t, &done, "a goroutine hangs")
	require.NoError(t, p.current.Load().Close(true))
	p.driver.requireNothingLeft(t)
	require.GreaterOrEqual(t, served.Load(), int64(150))
	require.GreaterOrEqual(t, resets.Load(), int64(50))
}

// hooked calls a function before the first query of a stream's capture.
type hooked struct {
	*driver
	before func()
	once   sync.Once
}

func (h *hooked) StreamGetCaptureInfo(ordinal int, stream gpu.Stream) (uint64, error) {
	h.once.Do(h.before)
	return h.driver.StreamGetCaptureInfo(ordinal, stream)
}

// TestCloseDuringAnAllocation closes the Manager between an allocation's choice of a pool and its first call of the
// driver. That call fails then, and its error was once the allocation's.
func TestCloseDuringAnAllocation(t *testing.T) {
	h := &hooked{driver: newDriver(t, "T4:64MiB", simulated.Options{})}
	require.NoError(t, h.ContextRetain(0))
	defer func() { require.NoError(t, h.ContextRelease(0)) }()
	stream := newStream(t, h.driver)
	m := initializedOn(t, h.driver, h, 16)
	h.before = func() {
		require.NoError(t, m.Close(false))
		require.NoError(t, h.StreamDestroy(0, stream)) // as with its context
	}
	must.Fail(t, status.FailedPrecondition, must.Err(m.AllocateKnowing(0, -1, stream, 0, mib, 0)))
}
