package simulated_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/simulated"
)

// TestStaleAndForeignHandles: a driver need not recognize these. What other drivers refuse too is in drivertest's
// table.
func TestStaleAndForeignHandles(t *testing.T) {
	m := newMachine(t, "2xT4:64MiB,K40", simulated.Options{})
	for ordinal := range 3 {
		require.NoError(t, m.ContextRetain(ordinal))
	}
	stream, gone := newStream(m, gpu.StreamDefault), newStream(m, gpu.StreamDefault)
	require.NoError(t, m.StreamDestroy(0, gone))
	base := reserve(m, 4)
	mapped(t, m, base, 1)
	before := m.Inventory()
	for _, row := range []struct {
		name string
		call func() error
		want gpu.Result
	}{
		{"access of a GPU without virtual memory", func() error { return m.MemSetAccess(2, base, granule) },
			gpu.ErrorNotSupported},
		{"a stream that never was", func() error { return m.StreamSynchronize(0, 99999) }, gpu.ErrorInvalidHandle},
		{"a destroyed stream", func() error { return m.StreamSynchronize(0, gone) }, gpu.ErrorInvalidHandle},
		{"an event that never was", func() error { return m.StreamWaitEvent(0, stream, 7) }, gpu.ErrorInvalidHandle},
		{"a record of an event that never was", func() error { return m.EventRecord(0, 99999, stream) },
			gpu.ErrorInvalidHandle},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.ErrorIs(t, row.call(), row.want)
			require.Equal(t, before, m.Inventory(), "a refused call changed something")
		})
	}
}

func TestAnEmptyCopySucceedsAnywhere(t *testing.T) {
	m := retained(t, "T4", simulated.Options{})
	for _, addr := range []uint64{0, 1, math.MaxUint64} {
		require.NoError(t, m.MemcpyHtoD(0, addr, nil))
		require.NoError(t, m.MemcpyDtoH(0, nil, addr))
		require.NoError(t, m.MemsetD8(0, addr, 1, 0))
		require.NoError(t, m.MemcpyDtoDAsync(0, addr, addr, 0, gpu.StreamNull))
	}
}

func TestTheEndOfOneContextLeavesTheOthers(t *testing.T) {
	m := newMachine(t, "2xT4", simulated.Options{})
	require.NoError(t, m.ContextRetain(0))
	require.NoError(t, m.ContextRetain(1))
	attempt.Get(m.MemAlloc(0, 1000))
	kept := attempt.Get(m.MemAlloc(1, 1000))
	require.NoError(t, m.ContextRelease(0))
	allocations, retains := m.Live()
	require.Equal(t, []int{1, 1}, []int{allocations, retains})
	require.NoError(t, m.MemFree(1, kept))
}

func TestBadCardsAreRefused(t *testing.T) {
	spec := attempt.Get(models.ParseSpec("2xT4:1GiB"))
	model := spec.Cards[0].Model
	of := func(bytes uint64) models.Spec {
		return models.Spec{Cards: []models.Card{{Model: model, MemoryBytes: bytes}}}
	}
	for _, row := range []struct {
		name string
		spec models.Spec
		opts simulated.Options
		says string
	}{
		{"a card without memory", of(0), simulated.Options{}, "a GPU 0 of 0 bytes"},
		{"a crooked memory", of(100), simulated.Options{}, "a GPU 0 of 100 bytes"},
		{"a memory that no host has", of(math.MaxUint64 - 255), simulated.Options{}, "at most 16TiB"},
		{"more in use than there is", spec, simulated.Options{UsedBytes: 1<<30 + 1}, "cannot be in use"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, err := simulated.New(row.spec, row.opts)
			require.Nil(t, m)
			require.ErrorContains(t, err, row.says)
			require.Equal(t, status.InvalidArgument, status.CodeOf(err))
		})
	}
}
