package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/sim"
	"gpuconf/tests_go/stitching"
)

// Blocks keep every byte while memory moves beside them.
func TestStitchingOnSimulatedGPUs(t *testing.T) {
	for seed := range uint64(2) {
		d := newDriver(t, "T4:128MiB", sim.Options{})
		require.Greater(t, stitching.Run(t, d.machine, seed, 300), uint64(5))
		d.requireNothingLeft(t)
	}
}
