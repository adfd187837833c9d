//go:build cgo

package pybind_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/config"
	"gpuconf/pybind"
	"gpuconf/pybind/process"
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
	var found map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &found))
	if found["why_none"] == nil {
		t.Skip("this machine has an NVIDIA driver")
	}
	require.Contains(t, found["why_none"], "NVML")
	require.Equal(t, []any{}, found["cards"])
}
