package sim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/models"
	"gpuconf/gocore/sim"
	"gpuconf/gocore/status"
)

// TestStricterThanCUDA checks what only a simulated machine refuses: mapping half a handle, overlaps, and handles that a driver
// need not recognize as stale or another GPU's. What other drivers refuse too is in drivertest's table.
func TestStricterThanCUDA(t *testing.T) {
	m := newMachine(t, "2xT4:64MiB,K40", sim.Options{})
	for ordinal := range 3 {
		require.NoError(t, m.ContextRetain(ordinal))
	}
	addr, stream, gone := alloc(t, m, 4096), newStream(t, m, gpu.StreamDefault), newStream(t, m, gpu.StreamDefault)
	require.NoError(t, m.StreamDestroy(0, gone))
	base := reserve(t, m, 4)
	mapped(t, m, base, 1)
	two := create(t, m, 2)
	before := m.Inventory()
	for _, row := range []struct {
		name string
		call func() error
		want gpu.Result
	}{
		{"half a handle", func() error { return m.MemMap(base+granule, granule, two) }, gpu.ErrorInvalidValue},
		{"access of a GPU without virtual memory", func() error { return m.MemSetAccess(2, base, granule) }, gpu.ErrorNotSupported},
		{"copies that overlap", func() error { return m.MemcpyDtoD(0, base, base+100, 101) }, gpu.ErrorInvalidValue},
		{"copies onto themselves", func() error { return m.MemcpyDtoD(0, base, base, 1) }, gpu.ErrorInvalidValue},
		{"asynchronous copies that overlap", func() error { return m.MemcpyDtoDAsync(0, addr, addr+8, 9, stream) }, gpu.ErrorInvalidValue},
		{"a stream that never was", func() error { return m.StreamSynchronize(0, 99999) }, gpu.ErrorInvalidHandle},
		{"another GPU's stream", func() error { return m.StreamSynchronize(1, stream) }, gpu.ErrorInvalidHandle},
		{"an event that never was", func() error { return m.StreamWaitEvent(0, stream, 7) }, gpu.ErrorInvalidHandle},
		{"a record of an event that never was", func() error { return m.EventRecord(0, 99999, stream) }, gpu.ErrorInvalidHandle},
		{"an empty copy in a destroyed stream", func() error { return m.MemcpyDtoDAsync(0, addr, addr, 0, gone) }, gpu.ErrorInvalidHandle},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.ErrorIs(t, row.call(), row.want)
			require.Equal(t, before, m.Inventory(), "a refused call changed something")
		})
	}
	require.NoError(t, m.MemcpyDtoD(0, base, base+100, 100), "neighbors do not overlap")
}

func TestAnEmptyCopySucceedsAnywhere(t *testing.T) {
	m := retained(t, "T4", sim.Options{})
	for _, addr := range []uint64{0, 1, math.MaxUint64} {
		require.NoError(t, m.MemcpyHtoD(0, addr, nil))
		require.NoError(t, m.MemcpyDtoH(0, nil, addr))
		require.NoError(t, m.MemsetD8(0, addr, 1, 0))
		require.NoError(t, m.MemcpyDtoDAsync(0, addr, addr, 0, gpu.StreamNull))
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
	spec, err := models.ParseSpec("2xT4:1GiB")
	require.NoError(t, err)
	odd := models.Spec{Cards: []models.Card{{Model: spec.Cards[0].Model, MemoryBytes: 100}}}
	huge := models.Spec{Cards: []models.Card{{Model: spec.Cards[0].Model, MemoryBytes: math.MaxUint64 - 255}}}
	for _, row := range []struct {
		name string
		spec models.Spec
		opts sim.Options
		says string
	}{
		{"no cards", models.Spec{}, sim.Options{}, "cannot simulate 0 GPUs"},
		{"65 cards", models.Spec{Cards: make([]models.Card, 65)}, sim.Options{}, "cannot simulate 65 GPUs"},
		{"a card without memory", models.Spec{Cards: make([]models.Card, 1)}, sim.Options{}, "a GPU of 0 bytes"},
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
