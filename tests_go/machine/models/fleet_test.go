package models_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/models"
)

// TestFleet checks that a fleet is written as a machine is, but may have more GPUs than one.
func TestFleet(t *testing.T) {
	fleet, err := models.ParseFleet("64xA100-80GB, 0xT4")
	require.Equal(t, status.InvalidArgument, status.CodeOf(err))
	require.Empty(t, fleet)
	fleet, err = models.ParseFleet("64 x A100-80GB, 128xH100,T4:8GiB")
	require.NoError(t, err)
	var names []string
	counts := 0
	for _, batch := range fleet {
		names = append(names, batch.Name())
		counts += batch.Count
	}
	require.Equal(t, []string{"A100-80GB", "H100-80GB", "T4:8GiB"}, names)
	require.Equal(t, 193, counts)
	require.Equal(t, uint64(8<<30), fleet[2].Card.MemoryBytes)
}

func TestInvalidFleets(t *testing.T) {
	for text, want := range map[string]string{
		"":                     `invalid list of GPUs "": it is empty; an example is 64xA100-80GB,128xH100-80GB`,
		"T4,,T4":               `invalid list of GPUs "T4,,T4": an entry is empty; the form is [N x]MODEL[:MEMORY][:PROFILE]...; an example is 2xT4:8GiB`,
		"0xT4":                 `invalid list of GPUs "0xT4": the count in "0xT4" must be from 1 to 1000000; an example is 2xT4:8GiB`,
		"1000001xT4":           `invalid list of GPUs "1000001xT4": the count in "1000001xT4" must be from 1 to 1000000; an example is 2xT4:8GiB`,
		"999999xT4,T4,T4":      `invalid list of GPUs "999999xT4,T4,T4": it has more than 1000000 GPUs`,
		"8xT4:7":               `invalid list of GPUs "8xT4:7": memory "7" is not a whole number with a unit (B, KiB, MiB, GiB, TiB), such as 8GiB`,
		"99999999999999999xT4": `invalid list of GPUs "99999999999999999xT4": the count in "99999999999999999xT4" must be from 1 to 1000000; an example is 2xT4:8GiB`,
	} {
		_, err := models.ParseFleet(text)
		require.Equal(t, status.InvalidArgument, status.CodeOf(err))
		require.EqualError(t, err, want)
	}
}
