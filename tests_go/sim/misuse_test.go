package sim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/sim"
	"gpuconf/gocore/status"
)

// TestMisuse holds what the conformance suite leaves open: which of several mistakes is reported, and what is another
// device's.
func TestMisuse(t *testing.T) {
	m := newMachine(t, "3xT4:64MiB", sim.Options{})
	require.NoError(t, m.ContextRetain(0))
	require.NoError(t, m.ContextRetain(1))
	addr, err := m.MemAlloc(0, 1000)
	require.NoError(t, err)
	other, err := m.MemAlloc(1, 1000)
	require.NoError(t, err)

	const noContext, noDevice = 2, 3
	for _, row := range []struct {
		name string
		call func() error
		want gpu.Result
	}{
		{"no device comes before no context", func() error { _, err := m.MemAlloc(noDevice, 0); return err }, gpu.ErrorInvalidDevice},
		{"no context comes before bad size", func() error { _, err := m.MemAlloc(noContext, 0); return err }, gpu.ErrorInvalidContext},
		{"no context comes before out of memory", func() error { _, err := m.MemAlloc(noContext, 1<<60); return err }, gpu.ErrorInvalidContext},
		{"an empty copy needs a context", func() error { return m.MemcpyHtoD(noContext, addr, nil) }, gpu.ErrorInvalidContext},
		{"an empty fill needs a device", func() error { return m.MemsetD8(noDevice, addr, 0, 0) }, gpu.ErrorInvalidDevice},
		{"release of what was never retained", func() error { return m.ContextRelease(noContext) }, gpu.ErrorInvalidContext},
		{"free on another device", func() error { return m.MemFree(1, addr) }, gpu.ErrorInvalidValue},
		{"copy to another device's memory", func() error { return m.MemcpyHtoD(1, addr, []byte{1}) }, gpu.ErrorInvalidValue},
		{"copy from another device's memory", func() error { return m.MemcpyDtoH(0, make([]byte, 1), other) }, gpu.ErrorInvalidValue},
		{"fill of another device's memory", func() error { return m.MemsetD8(0, other, 1, 1) }, gpu.ErrorInvalidValue},
		{"the rounding behind an allocation is not its own", func() error { return m.MemsetD8(0, addr+1000, 1, 1) }, gpu.ErrorInvalidValue},
		{"a fill over the end by one", func() error { return m.MemsetD8(0, addr+999, 1, 2) }, gpu.ErrorInvalidValue},
		{"a length that wraps around", func() error { return m.MemsetD8(0, addr+8, 1, math.MaxUint64-4) }, gpu.ErrorInvalidValue},
		{"more than there is", func() error { _, err := m.MemAlloc(0, 64<<20); return err }, gpu.ErrorOutOfMemory},
		{"a size that wraps around", func() error { _, err := m.MemAlloc(0, math.MaxUint64-3); return err }, gpu.ErrorOutOfMemory},
		{"a negative device", func() error { return m.ContextRetain(math.MinInt) }, gpu.ErrorInvalidDevice},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.ErrorIs(t, row.call(), row.want)
			allocations, retains := m.Live()
			require.Equal(t, []int{2, 2}, []int{allocations, retains}, "a refused call changed something")
			require.Equal(t, make([]byte, 1000), view(addr, 1000))
			require.Equal(t, make([]byte, 1000), view(other, 1000))
		})
	}
}

func TestAnEmptyCopySucceedsAnywhere(t *testing.T) {
	m := retained(t, "T4", sim.Options{})
	for _, addr := range []uint64{0, 1, math.MaxUint64} {
		require.NoError(t, m.MemcpyHtoD(0, addr, nil))
		require.NoError(t, m.MemcpyDtoH(0, nil, addr))
		require.NoError(t, m.MemsetD8(0, addr, 1, 0))
	}
}

func TestTheEndOfOneContextLeavesTheOthers(t *testing.T) {
	m := newMachine(t, "2xT4", sim.Options{})
	require.NoError(t, m.ContextRetain(0))
	require.NoError(t, m.ContextRetain(1))
	_, err := m.MemAlloc(0, 1000)
	require.NoError(t, err)
	kept, err := m.MemAlloc(1, 1000)
	require.NoError(t, err)
	require.NoError(t, m.ContextRelease(0))
	allocations, retains := m.Live()
	require.Equal(t, []int{1, 1}, []int{allocations, retains})
	require.NoError(t, m.MemFree(1, kept))
}

func TestClosedMachineHasNothingLive(t *testing.T) {
	m := retained(t, "T4", sim.Options{})
	alloc(t, m, 1000)
	require.NoError(t, m.Close())
	allocations, retains := m.Live()
	require.Equal(t, []int{0, 0}, []int{allocations, retains})
}

func TestNewRefusesBadOptions(t *testing.T) {
	spec, err := sim.ParseSpec("2xT4:1GiB")
	require.NoError(t, err)
	odd := sim.Spec{Cards: []sim.Card{{Model: spec.Cards[0].Model, MemoryBytes: 100}}}
	huge := sim.Spec{Cards: []sim.Card{{Model: spec.Cards[0].Model, MemoryBytes: math.MaxUint64 - 255}}}
	for _, row := range []struct {
		name string
		spec sim.Spec
		opts sim.Options
		says string
	}{
		{"no cards", sim.Spec{}, sim.Options{}, "cannot simulate 0 GPUs"},
		{"65 cards", sim.Spec{Cards: make([]sim.Card, 65)}, sim.Options{}, "cannot simulate 65 GPUs"},
		{"a card without memory", sim.Spec{Cards: make([]sim.Card, 1)}, sim.Options{}, "a GPU of 0 bytes"},
		{"a crooked memory", odd, sim.Options{}, "a GPU of 100 bytes"},
		{"a memory that no host has", huge, sim.Options{}, "at most 16TiB"},
		{"a card that is not there", spec, sim.Options{Visible: []int{0, 2}}, "2 is out of range or listed twice"},
		{"a negative card", spec, sim.Options{Visible: []int{-1}}, "-1 is out of range"},
		{"a card twice", spec, sim.Options{Visible: []int{1, 1}}, "1 is out of range or listed twice"},
		{"more in use than there is", spec, sim.Options{UsedBytes: 1<<30 + 1}, "cannot be in use"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, err := sim.New(row.spec, row.opts)
			require.Nil(t, m)
			require.ErrorContains(t, err, row.says)
			require.Equal(t, status.InvalidArgument, status.CodeOf(err))
		})
	}
}
