package devmgr_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

func TestCloseIsRefusedWhileBlocksAreLive(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, nil, []float64{100, 100})
	a, b := allocate(t, m, 0, 1), allocate(t, m, 2, 3*mib)
	c := allocate(t, m, 2, 1)
	before := []any{stats(t, m, "GPU:0"), stats(t, m, "GPU:2"), d.Calls()}
	err := m.Close(false)
	must.Fail(t, status.FailedPrecondition, err)
	require.EqualError(t, err, "memory is still in use: 1 block on GPU:0 (256B), 2 blocks on GPU:2 (3.00MiB). Free "+
		"it first")
	require.False(t, m.Closed())
	require.Equal(t, before, []any{stats(t, m, "GPU:0"), stats(t, m, "GPU:2"), d.Calls()}, "nothing has changed")
	for _, block := range []uint64{a.Addr, b.Addr, c.Addr} {
		require.NoError(t, m.Free(block))
	}
	require.NoError(t, m.Close(false))
	require.True(t, m.Closed())
	d.requireNothingLeft(t)
	require.Equal(t, 1, d.closes)
	require.NoError(t, m.Close(false), "a second Close does nothing")
	require.Equal(t, 1, d.closes)
}

func TestForcedCloseGivesEverythingBack(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
		[]float64{100, 100})
	for i := range 30 {
		allocate(t, m, i%3, uint64(i)*mib/4)
	}
	require.NoError(t, m.Close(true))
	d.requireNothingLeft(t)
}

func TestCloseBeforeInitialize(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	m := must.OK(devmgr.New(d, nil))(t)
	require.NoError(t, m.Close(false))
	require.Equal(t, 1, d.closes)
	must.Fail(t, status.FailedPrecondition, must.Err(m.Initialize(nil, "", nil)))
	require.False(t, isInitialized(m))
}

// A machine that returns errors while it closes is closed anyway, and no error is lost.
func TestCloseGoesOnWhereTheDriverFails(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{100, 100})
	allocate(t, m, 0, 1)
	allocate(t, m, 1, 1)
	frees, releases := d.CallsOf()["MemFree"], d.CallsOf()["ContextRelease"]
	d.SetFaults(faults.OnOp("MemFree", frees, gpu.ErrorIllegalAddress), faults.OnOp("ContextRelease", releases+1,
		gpu.ErrorNotPermitted))
	d.closeErr = gpu.ErrorUnknown
	err := m.Close(true)
	must.Fail(t, status.Internal, err)
	for _, said := range []gpu.Result{gpu.ErrorIllegalAddress, gpu.ErrorNotPermitted, gpu.ErrorUnknown} {
		require.ErrorIs(t, err, said)
	}
	require.True(t, m.Closed())
	allocations, retains := d.machine.Live()
	require.Equal(t, []int{1, 1}, []int{allocations, retains}, "only what the driver itself refused")
	require.NoError(t, d.machine.ContextRelease(0))
	require.NoError(t, m.Close(true))
}

func TestCloseErrorsHaveAKind(t *testing.T) {
	for _, row := range []struct {
		op   string
		text string
	}{
		{"ContextRelease", "GPU:0: cannot release the context on Tesla T4"},
		{"Close", "cannot shut down the GPU driver"},
	} {
		t.Run(row.op, func(t *testing.T) {
			d := newDriver(t, "T4", simulated.Options{})
			m := must.OK(devmgr.New(d, nil))(t)
			must.OK(m.Initialize(nil, "", nil))(t)
			d.SetFaults(faults.OnOp(row.op, 0, gpu.ErrorNotPermitted))
			if row.op == "Close" {
				d.closeErr = gpu.ErrorNotPermitted
			}
			err := m.Close(false)
			var kind *status.Error
			require.True(t, errors.As(err, &kind), "an error without a kind: %v", err)
			require.ErrorContains(t, err, row.text)
			require.ErrorIs(t, err, gpu.ErrorNotPermitted)
		})
	}
}

func TestEveryCallOfAClosedManagerFails(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil)
	block := allocate(t, m, 0, 1)
	peak, _ := must.OK2(m.StartPeak(0))(t)
	require.NoError(t, m.Close(true))
	for name, call := range map[string]func() error{
		"Configure":        func() error { return m.Configure(func(*config.State) error { panic("called") }) },
		"Inspect":          func() error { return m.Inspect(func(*config.State) error { panic("called") }) },
		"Initialize":       func() error { return must.Err(m.Initialize(nil, "", nil)) },
		"LogicalDevices":   func() error { _, err := m.LogicalDevices(); return err },
		"AllocateOn":       func() error { _, err := m.AllocateKnowing(0, 0, 0, 0, 1, 0); return err },
		"LimitBytes":       func() error { _, err := m.LimitBytes(0); return err },
		"Allocate":         func() error { _, err := m.Allocate(0, 1, 0); return err },
		"Allocate nothing": func() error { _, err := m.Allocate(0, 0, 0); return err },
		"Free":             func() error { return m.Free(block.Addr) },
		"Free nothing":     func() error { return m.Free(0) },
		"FreeID":           func() error { return m.FreeID(block.Addr, block.ID) },
		"FreeID nothing":   func() error { return m.FreeID(0, 0) },
		"Frees":            func() error { _, err := m.Frees(0); return err },
		"WaitForFree":      func() error { return m.WaitForFree(0, 0, time.Hour) },
		"CopyFromHost":     func() error { return m.CopyFromHost(block.Addr, block.ID, 0, []byte{1}) },
		"CopyToHost":       func() error { return m.CopyToHost(block.Addr, block.ID, 0, []byte{1}) },
		"ResolveGPU":       func() error { _, err := m.ResolveGPU("GPU:0"); return err },
		"MemoryInfo":       func() error { _, _, err := m.MemoryInfo("GPU:0"); return err },
		"MemoryStats":      func() error { _, err := m.MemoryStats("GPU:0"); return err },
		"ResetMemoryStats": func() error { return m.ResetMemoryStats("GPU:0") },
		"MemoryMap":        func() error { _, err := m.MemoryMap("GPU:0"); return err },
		"StartPeak":        func() error { _, _, err := m.StartPeak(0); return err },
		"StopPeak":         func() error { _, err := m.StopPeak(0, peak); return err },
		"Check":            m.Check,
		"StreamOf":         func() error { _, err := m.StreamOf(0); return err },
		"RecordStream":     func() error { return m.RecordStream(block.Addr, 3) },
		"Region":           func() error { _, _, err := m.Region(block.Addr); return err },
		"Trim":             func() error { _, err := m.Trim(); return err },
		"RequireFraction":  func() error { return m.RequireFraction(0, 1) },
	} {
		t.Run(name, func(t *testing.T) { must.Fail(t, status.FailedPrecondition, call()) })
	}
	require.False(t, isInitialized(m))
	require.Zero(t, m.LogicalGPUs())
}

// Before the logical devices exist, the error says what to call first, not that there is no GPU.
func TestCallsBeforeInitialize(t *testing.T) {
	m := enumerated(t, newDriver(t, "T4", simulated.Options{}), nil)
	for name, call := range map[string]func() error{
		"Allocate":    func() error { _, err := m.Allocate(0, 1, 0); return err },
		"WaitForFree": func() error { return m.WaitForFree(0, 0, time.Hour) },
		"ResolveGPU":  func() error { _, err := m.ResolveGPU("GPU:0"); return err },
		"MemoryInfo":  func() error { _, _, err := m.MemoryInfo("GPU:0"); return err },
		"StartPeak":   func() error { _, _, err := m.StartPeak(0); return err },
	} {
		t.Run(name, func(t *testing.T) {
			must.Fail(t, status.FailedPrecondition, call(), "not initialized yet")
		})
	}
	require.Empty(t, logicalNames(t, m))
	must.Fail(t, status.InvalidArgument, must.Err(m.AllocateKnowing(0, -1, 0, 0, 1, 0)))
	must.Fail(t, status.InvalidArgument, m.Free(256))
}

// A context may outlive its pools: other libraries hold it too, and so do other logical GPUs of the card. Then queued
// work runs after Close, and the memory that it touches must not be freed before.

// closing is a pool with a context that outlives it.
type closing struct {
	*devmgr.Manager
	d          *driver
	one, other gpu.Stream
}

func newClosing(t *testing.T, opts simulated.Options, growth string) *closing {
	m, d := initialized(t, "T4", opts, config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": growth}, []float64{16})
	require.NoError(t, d.ContextRetain(0))
	c := &closing{Manager: m, d: d, one: newStream(t, d), other: newStream(t, d)}
	t.Cleanup(func() { require.NoError(t, d.machine.ContextRelease(0)) })
	return c
}

// busy keeps a stream busy until the returned function is called.
func (c *closing) busy(t *testing.T, stream gpu.Stream) (done func()) {
	held := closedGate(t, c.d, stream)
	t.Cleanup(held.open) // or a Close that waits for it would never return
	return held.open
}

// closeWhile closes the Manager while streams are busy, for a little while longer, and then runs their work.
func (c *closing) closeWhile(t *testing.T, done func(), force bool) {
	timer := time.AfterFunc(20*time.Millisecond, done)
	defer timer.Stop()
	require.NoError(t, c.Close(force))
	done()
	rest := make(chan error, 1)
	go func() { rest <- c.d.ContextSynchronize(0) }()
	select {
	case err := <-rest:
		require.NoError(t, err, "the work that was queued before Close")
	case <-time.After(soon):
		require.FailNow(t, "a stream waits for a mark that was never written")
	}
}

func (c *closing) allocateOn(t *testing.T, stream gpu.Stream, bytes uint64) uint64 {
	return must.OK(c.AllocateKnowing(0, -1, stream, devmgr.Lasting, bytes, 0))(t).Addr
}

func TestCloseWaitsForTheWorkOnItsMemory(t *testing.T) {
	for name, growth := range map[string]string{"whole": "false", "in place": "true"} {
		for what, use := range map[string]func(t *testing.T, c *closing) (force bool){
			"one stream, freed": func(t *testing.T, c *closing) bool {
				addr := c.allocateOn(t, c.one, mib)
				fill(t, c.d, c.one, addr, 1, mib)
				require.NoError(t, c.FreeOn(addr, c.one))
				return false
			},
			"one stream, live": func(t *testing.T, c *closing) bool {
				fill(t, c.d, c.one, c.allocateOn(t, c.one, mib), 1, mib)
				return true
			},
			"two streams, freed": func(t *testing.T, c *closing) bool {
				require.NoError(t, c.Free(c.allocateOn(t, c.other, 256)))
				addr := c.allocateOn(t, c.one, mib)
				fill(t, c.d, c.one, addr, 1, mib)
				require.NoError(t, c.FreeOn(addr, c.one))
				return false
			},
			"two streams, live": func(t *testing.T, c *closing) bool {
				require.NoError(t, c.Free(c.allocateOn(t, c.other, 256)))
				fill(t, c.d, c.one, c.allocateOn(t, c.one, mib), 1, mib)
				return true
			},
			"a destroyed stream": func(t *testing.T, c *closing) bool {
				block, err := c.AllocateKnowing(0, -1, c.one, 0, mib, 0) // nothing says that the stream lasts
				require.NoError(t, err)
				fill(t, c.d, c.one, block.Addr, 1, mib)
				require.NoError(t, c.Free(block.Addr))
				require.NoError(t, c.d.StreamDestroy(0, c.one))
				return false
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				c := newClosing(t, simulated.Options{}, growth)
				done := c.busy(t, c.one)
				c.closeWhile(t, done, use(t, c))
			})
		}
	}
}

// Marks and waits use page-locked memory of the pool. It is not freed while a stream may still write or read it.
func TestCloseKeepsTheTimelineUntilItsMarksHavePassed(t *testing.T) {
	c := newClosing(t, simulated.Options{}, "false")
	addr := c.allocateOn(t, c.one, 16*mib)
	done := c.busy(t, c.one)
	require.NoError(t, c.FreeOn(addr, c.one))
	// the limit leaves no other memory: a mark in one stream, a wait in the other
	heir := c.allocateOn(t, c.other, 16*mib)
	fill(t, c.d, c.other, heir, 1, mib)
	require.NoError(t, c.FreeOn(heir, c.other))
	c.closeWhile(t, done, false)
}

// If a stream cannot be waited for, its marks may be written at any time: the page stays until the context ends.
func TestMarksThatCannotBeWaitedForKeepTheirPage(t *testing.T) {
	for _, call := range []string{"StreamWriteValue64", "StreamGetCaptureInfo"} {
		t.Run(call, func(t *testing.T) {
			c := newClosing(t, simulated.Options{}, "false")
			addr := c.allocateOn(t, c.one, 16*mib)
			done := c.busy(t, c.one)
			require.NoError(t, c.FreeOn(addr, c.one))
			require.NoError(t, c.FreeOn(c.allocateOn(t, c.other, 16*mib), c.other))
			c.d.SetFaults(func(c faults.Call) error {
				if c.Op == call {
					return gpu.ErrorUnknown
				}
				return nil
			})
			c.closeWhile(t, done, false)
			c.d.SetFaults()
			page := must.OK(c.d.MemHostAlloc(0, 64<<10))(t)
			for i := range page.Words {
				require.Zero(t, atomic.LoadUint64(&page.Words[i]), "word %d of new memory was written", i)
			}
		})
	}
}

// A capture in progress is not disturbed by Close, and what it cannot wait for stays.
func TestCloseDuringACapture(t *testing.T) {
	d, captures := newCapturing(t, simulated.Options{})
	require.NoError(t, d.ContextRetain(0))
	m := initializedOn(t, d, d, 16)
	t.Cleanup(func() { require.NoError(t, d.machine.ContextRelease(0)) })
	one, other := newStream(t, d), newStream(t, d)
	for _, stream := range []gpu.Stream{one, other, one} {
		block := must.OK(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, 16*mib, 0))(t)
		require.NoError(t, m.FreeOn(block.Addr, stream))
	}
	require.NoError(t, captures.BeginCapture(0, one))
	require.NoError(t, m.Close(false))
	graph := must.OK(captures.EndCapture(0, one))(t, "Close has invalidated the capture")
	require.NoError(t, captures.DestroyGraph(0, graph))
	require.NoError(t, d.ContextSynchronize(0))
}

// A broken context never reaches a mark that was queued before. What waits for the mark fails, and does not wait for
// ever.
func TestWaitsInABrokenContextEnd(t *testing.T) {
	m, d := initialized(t, "T4", simulated.Options{}, nil, []float64{16})
	one, other := newStream(t, d), newStream(t, d)
	block := must.OK(m.AllocateKnowing(0, -1, one, devmgr.Lasting, 16*mib, 0))(t)
	closedGate(t, d, one)
	require.NoError(t, m.FreeOn(block.Addr, one))
	_, err := m.AllocateKnowing(0, -1, other, devmgr.Lasting, 8*mib, 0)
	require.NoError(t, err, "it takes half of the memory, after a mark that covers all of it")
	breakContext(t, d)

	trimmed := make(chan error, 1)
	go func() {
		_, err := m.Trim()
		trimmed <- err
	}()
	select {
	case err := <-trimmed:
		require.ErrorIs(t, err, gpu.ErrorIllegalAddress)
	case <-time.After(soon):
		require.FailNow(t, "Trim waits for a mark in a broken context")
	}
	require.ErrorIs(t, m.Close(true), gpu.ErrorIllegalAddress)
}

// breakContext queues work on memory that is freed before the work runs, as a mistaken program does.
func breakContext(t *testing.T, d *driver) {
	stream := newStream(t, d)
	addr := must.OK(d.MemAlloc(0, mib))(t)
	held := closedGate(t, d, stream)
	fill(t, d, stream, addr, 1, mib)
	require.NoError(t, d.MemFree(0, addr))
	held.open()
	require.Eventually(t, func() bool { _, _, err := d.MemGetInfo(0); return err != nil }, soon, time.Millisecond)
}
