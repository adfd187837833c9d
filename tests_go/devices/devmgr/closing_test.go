package devmgr_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

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
				block, err := c.AllocateOn(0, -1, c.one, mib, 0) // nothing says that the stream lasts
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
