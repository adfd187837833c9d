package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// Allocations on all logical GPUs count, by number and by stream, and the one that fails has the whole report.
func TestAnInjectedFailure(t *testing.T) {
	m, d := initialized(t, "2xT4", simulated.Options{}, nil, []float64{8, 8}, []float64{8})
	stream := must.OK(d.machine.StreamCreate(0, 0, 0))(t)
	require.NoError(t, m.FailAllocation(4))
	must.OK(m.Allocate(0, 1000))(t)
	must.OK(m.AllocateOn(0, 1, stream, 1000, 0))(t)
	must.OK(m.Allocate(2, 1000))(t)
	require.Equal(t, uint64(3), m.CountedAllocations())
	_, err := m.AllocateOn(1, -1, gpu.StreamNull, 3*mib, 0)
	must.Fail(t, status.ResourceExhausted, err)
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
		must.OK(m.Allocate(number, 1000))(t)
	}
	_, ooms := must.OK2(m.MemoryTotals(2))(t)
	require.Equal(t, uint64(1), ooms)
	require.NoError(t, m.Check())
}

// What is injected before the pools exist counts from their first allocation, and 0 ends it.
func TestAFailureIsInjectedBeforeInitialization(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	m := enumerated(t, d, config.Env{})
	require.NoError(t, m.FailAllocation(1))
	require.NoError(t, m.Initialize(config.Env{}, "test"))
	require.True(t, bfc.IsInjected(must.Err(m.Allocate(0, 1000))))
	require.NoError(t, m.FailAllocation(2))
	require.Zero(t, m.CountedAllocations())
	require.NoError(t, m.FailAllocation(0))
	for range 4 {
		must.OK(m.Allocate(0, 1000))(t)
	}
	require.Zero(t, m.CountedAllocations())
	require.NoError(t, m.Close(true))
	must.Fail(t, status.FailedPrecondition, m.FailAllocation(1))
}

// Allocations of a library with an allocator of its own count with those of the pools.
func TestAnInjectedFailureElsewhere(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{8})
	require.NoError(t, m.CountForeign(8))
	require.Zero(t, m.CountedAllocations())
	require.NoError(t, m.FailAllocation(3))
	require.NoError(t, m.CountForeign(8))
	must.OK(m.Allocate(0, 1000))(t)
	err := m.CountForeign(2 * mib)
	must.Fail(t, status.ResourceExhausted, err)
	require.Equal(t, "Tried to allocate 2.00MiB (2097152 bytes): out of memory, an injected failure, which a test "+
		"requested", err.Error())
	require.NoError(t, m.CountForeign(8))
	require.Equal(t, uint64(3), m.CountedAllocations())
}
