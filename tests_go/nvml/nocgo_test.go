//go:build !cgo

package nvml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/nvml"
	"gpuconf/gocore/status"
)

func TestWithoutCgoNVMLIsUnavailable(t *testing.T) {
	_, err := nvml.Open()
	require.Equal(t, status.Unavailable, status.CodeOf(err))
	require.ErrorContains(t, err, "without cgo")
}
