//go:build cgo

package pybind_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/config"
	"gpuconf/pybind"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// A survey lists every card: CUDA_VISIBLE_DEVICES is for the process's own use.
func TestSurveyOfASimulatedMachine(t *testing.T) {
	var state process.State
	found, err := state.Survey(config.Env{"GPUCONF_SIMULATE": "2xT4,GB10", "CUDA_VISIBLE_DEVICES": "0"})
	require.NoError(t, err)
	require.Equal(t, "2xT4,GB10", found.Spec)
	require.Len(t, found.Cards, 3)
	require.EqualValues(t, 16<<30, *found.Cards[1].Memory.TotalBytes)
	require.Nil(t, found.Cards[1].Memory.UsedBytes, "only the processes know")
	require.Equal(t, "simulation", found.Cards[1].Memory.Source)
}

// Without a driver there is nothing to see, which is no error.
func TestSurveyWithoutADriver(t *testing.T) {
	text, err := pybind.Cards(`{}`)
	require.NoError(t, err)
	var found wire.Survey
	require.NoError(t, wire.Decode(text, &found))
	if found.WhyNone == nil {
		t.Skip("this machine has an NVIDIA driver")
	}
	require.Contains(t, *found.WhyNone, "NVML")
	require.Empty(t, found.Cards)
}
