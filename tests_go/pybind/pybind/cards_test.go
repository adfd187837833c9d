//go:build cgo

package pybind_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/pybind"
	"gpuconf/pybind/wire"
)

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
