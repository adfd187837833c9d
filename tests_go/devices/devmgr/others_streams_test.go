package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// StreamDestroy notes that the handle is gone: the manager destroys the streams that it made.
func (d *deadly) StreamDestroy(ordinal int, stream gpu.Stream) error {
	err := d.driver.StreamDestroy(ordinal, stream)
	d.gone[stream] = err == nil
	return err
}

// A pool's memory may be used in the stream of another logical GPU. That stream ends with the other pool, which may be
// closed first: closing this one leaves it alone.
func TestThePoolOfAStreamIsClosedBeforeAnotherThatUsedIt(t *testing.T) {
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			machine := newDriver(t, "T4", opts)
			d := &deadly{driver: machine, t: t, gone: map[gpu.Stream]bool{}}
			m := must.OK(devmgr.New(d, nil))(t)
			require.NoError(t, splitGPU(m, 0, 64, 64, 64))
			require.NoError(t, m.Initialize(nil, "main.py:1 (test)"))
			for of := range 3 {
				stream := must.OK(m.StreamOf(of))(t)
				for number := range 3 {
					block := must.OK(m.AllocateOn(0, number, stream, mib, 0))(t)
					fill(t, machine, stream, block.Addr, 1, mib)
					require.NoError(t, m.FreeOn(block.Addr, stream))
				}
			}
			require.NoError(t, m.Check())
			require.NoError(t, m.Close(true))
			machine.requireNothingLeft(t)
		})
	}
}

// The numbers of destroyed streams are ended together, after a wait for the GPU. If that wait fails, the next stream
// tries again: a program that creates and destroys streams does not run out of them because a wait failed once.
func TestDestroyedStreamsThatCouldNotBeEndedAreEndedLater(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	r := &recycler{driver: d, now: map[gpu.Stream]gpu.Stream{}}
	m := initializedOn(t, d, r, 8)
	kept := must.OK(m.Allocate(0, mib))(t)
	handle := newStream(t, d)
	// waits uses a new stream whose handle is the last one's, and returns how often the GPU was waited for.
	waits := func() int {
		before := d.CallsOf()["ContextSynchronize"]
		r.now[handle] = newStream(t, d)
		require.NoError(t, m.RecordStream(kept.Addr, handle))
		return d.CallsOf()["ContextSynchronize"] - before
	}
	for range 3 {
		d.SetFaults(func(c faults.Call) error {
			if c.Op == "ContextSynchronize" {
				return gpu.ErrorUnknown
			}
			return nil
		})
		for streams := 0; waits() == 0; streams++ {
			require.Less(t, streams, 1000)
		}
		require.Positive(t, waits(), "it fails again, and they stay")
		d.SetFaults()
		require.Positive(t, waits())
		require.Zero(t, waits(), "they have ended")
	}
	require.NoError(t, m.Free(kept.Addr))
	require.NoError(t, m.Check())
}
