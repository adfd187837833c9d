package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
	"gpuconf/tests_go/pool/stitching"
)

// Blocks keep all their bytes while memory is moved beside them.
func TestStitchingOnSimulatedGPUs(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	seeds := uint64(2)
	if underRace {
		seeds = 1
	}
	for seed := range seeds {
		d := newDriver(t, "T4:128MiB", simulated.Options{})
		require.Greater(t, stitching.Run(t, d.machine, seed, 300), uint64(5))
		d.requireNothingLeft(t)
	}
}

// Small blocks in every granule prevent memory from being moved together, and the report says so.
func TestReportOfGranulesThatCannotMove(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	m := enumerated(t, d, nil)
	require.NoError(t, splitGPU(m, 0, 8))
	must.OK(m.Initialize(config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, "main.py:1 (test)", nil))(t)
	var large []bfc.Block
	for range 4 {
		large = append(large, allocate(t, m, 0, 2*mib-256))
		allocate(t, m, 0, 256)
	}
	for _, block := range large {
		require.NoError(t, m.Free(block.Addr))
	}
	_, err := m.Allocate(0, 4*mib, 0)
	must.Fail(t, status.ResourceExhausted, err, "out of memory, enough memory is free, but it is fragmented.")
	require.NoError(t, m.Free(large[0].Addr+2*mib-256))
	_, err = m.Allocate(0, 4*mib, 0)
	require.ErrorContains(t, err, "but it is fragmented; only 2.00MiB (2097152 bytes) are in whole granules, which "+
		"can be moved together.")
}
