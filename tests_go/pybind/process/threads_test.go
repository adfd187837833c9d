//go:build cgo

package process_test

import (
	"context"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/pybind/process"
	"gpuconf/tests_go/must"
)

// state is what C has of this package.
type state struct {
	generation uint32
	stacks     bool
}

// withC returns what C has from now on, and sets the calling thread's tag.
func withC(t *testing.T, tag holder.Tag) *state {
	var c state
	process.UseThreads(process.Threads{Tag: func() holder.Tag { return tag }, Site: func() uint32 { return 0 },
		Stacks: func(on bool) { c.stacks = on }, Generation: func(generation uint32) { c.generation = generation },
		CaptureInfo: func(uintptr) {}, Stopped: func() {}})
	t.Cleanup(func() {
		process.UseThreads(process.Threads{Tag: func() holder.Tag { return 0 }, Site: func() uint32 { return 0 },
			Stacks: func(bool) {}, Generation: func(uint32) {}, CaptureInfo: func(uintptr) {}, Stopped: func() {}})
	})
	return &c
}

func TestWhatGpuconfAllocatesHasTheTagOfItsThread(t *testing.T) {
	require.Equal(t, holder.Of(holder.Gpuconf, 0), process.Holder())
	withC(t, 7)
	require.Equal(t, holder.Of(holder.Gpuconf, 7), process.Holder())
}

// A scope or a number of an earlier generation is invalid, and C compares without entering Go.
func TestCHasTheGeneration(t *testing.T) {
	c := withC(t, 0)
	var p process.State
	must.OK2(p.Simulate("T4:1GiB"))(t)
	require.Zero(t, c.generation, "there were no devices")
	for generation := range uint32(3) {
		must.OK2(p.Enumerate(nil))(t)
		require.Equal(t, generation, c.generation)
		require.NoError(t, p.Reset())
		require.Equal(t, generation+1, c.generation)
		require.Equal(t, c.generation, p.Generation())
	}
}

// Stacks are on while a recording with stacks is running, however it ends.
func TestStacksEndWithTheirRecording(t *testing.T) {
	const stack = "main.py\x001\x00main\x00"
	c := withC(t, 0)
	var p process.State
	for name, end := range map[string]func(id int64) error{
		"stopped": p.StopRecording,
		"dropped": p.DropRecording,
		"reset":   func(int64) error { return p.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			id := must.OK(p.StartRecording(100, true))(t)
			require.True(t, c.stacks)
			require.NotZero(t, p.AddStack(stack))
			must.Fail(t, status.FailedPrecondition, must.Err(p.StartRecording(100, false)))
			require.True(t, c.stacks, "a refusal changes nothing")
			must.Fail(t, status.FailedPrecondition, must.Err2(p.Recorded(context.Background(), id)))
			require.NoError(t, end(id))
			require.False(t, c.stacks)
			require.Zero(t, p.AddStack(stack))
			_, _, running, err := p.CountRecorded(id)
			require.Equal(t, name == "dropped", err != nil)
			require.False(t, running)
		})
	}
	id := must.OK(p.StartRecording(100, false))(t)
	require.False(t, c.stacks)
	require.NoError(t, p.DropRecording(id))
}

// Python's memory is not copied: what is written there is read through the slice, and the other way round.
func TestHostBytesAreThoseAtTheAddress(t *testing.T) {
	require.Nil(t, process.HostBytes(0, 0))
	require.Nil(t, process.HostBytes(math.MaxInt64, 0), "an empty array may have any address")
	memory := []byte("0123456789")
	seen := process.HostBytes(int64(uintptr(unsafe.Pointer(&memory[0]))), int64(len(memory)))
	seen[3], memory[4] = 'x', 'y'
	require.Equal(t, "012xy56789", string(memory))
	require.Equal(t, memory, seen)
}
