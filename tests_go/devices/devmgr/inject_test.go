package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/machine/simulated"
)

// Allocations on all logical GPUs count, by number and by stream, and the one that fails has the whole report.
func TestAnInjectedFailure(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, nil, []float64{8, 8}, []float64{8})
	stream, err := d.machine.StreamCreate(0, 0, 0)
	require.NoError(t, err)
	require.NoError(t, m.FailAllocation(4))
	_, err = m.Allocate(0, 1000)
	require.NoError(t, err)
	_, err = m.AllocateOn(0, 1, stream, 1000, 0)
	require.NoError(t, err)
	_, err = m.Allocate(2, 1000)
	require.NoError(t, err)
	require.Equal(t, uint64(3), m.CountedAllocations())
	_, err = m.AllocateOn(1, -1, gpu.StreamNull, 3*mib, 0)
	requireCode(t, status.ResourceExhausted, err)
	require.Equal(t, "OOM when allocating 3.00MiB (3145728 bytes) on GPU:2: "+
		"out of memory, an injected failure, which a test requested.\n"+
		"  limit 8.00MiB (8388608 bytes), in use 1.0KiB (1024 bytes) in 1 block, reserved 8.00MiB (8388608 bytes), "+
		"largest free block 8.00MiB (8387584 bytes)\n"+
		"  in use by c, untagged: 1.0KiB (1024 bytes) in 1 block\n"+
		"  on Tesla T4. The memory is not exhausted: the fixture gpu_oom_after or gpu_oom_each made this allocation "+
		"fail.", err.Error())
	require.True(t, bfc.IsInjected(err))
	require.Equal(t, uint64(4), m.CountedAllocations())
	for number := range 3 {
		_, err = m.Allocate(number, 1000)
		require.NoError(t, err)
	}
	totals, err := m.MemoryTotals(2)
	require.NoError(t, err)
	require.Equal(t, uint64(1), totals.OOMs)
	require.NoError(t, m.Check())
}

// What is injected before the pools exist counts from their first allocation, and 0 ends it.
func TestAFailureIsInjectedBeforeInitialization(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	m := enumerated(t, d, config.Env{})
	require.NoError(t, m.FailAllocation(1))
	require.NoError(t, m.Initialize(config.Env{}, "test"))
	_, err := m.Allocate(0, 1000)
	require.True(t, bfc.IsInjected(err))
	require.NoError(t, m.FailAllocation(2))
	require.Zero(t, m.CountedAllocations())
	require.NoError(t, m.FailAllocation(0))
	for range 4 {
		_, err := m.Allocate(0, 1000)
		require.NoError(t, err)
	}
	require.Zero(t, m.CountedAllocations())
	require.NoError(t, m.Close(true))
	requireCode(t, status.FailedPrecondition, m.FailAllocation(1))
}

// Allocations of a library with an allocator of its own count with those of the pools.
func TestAnInjectedFailureElsewhere(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{8})
	require.NoError(t, m.CountForeign(8))
	require.Zero(t, m.CountedAllocations())
	require.NoError(t, m.FailAllocation(3))
	require.NoError(t, m.CountForeign(8))
	_, err := m.Allocate(0, 1000)
	require.NoError(t, err)
	err = m.CountForeign(2 * mib)
	requireCode(t, status.ResourceExhausted, err)
	require.Equal(t, "Tried to allocate 2.00MiB (2097152 bytes): out of memory, an injected failure, which a test "+
		"requested", err.Error())
	require.NoError(t, m.CountForeign(8))
	require.Equal(t, uint64(3), m.CountedAllocations())
}
