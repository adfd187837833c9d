//go:build !cgo

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/cuda"
	"gpuconf/gocore/status"
)

func TestOpenWithoutCgoSaysSo(t *testing.T) {
	driver, err := cuda.Open()
	require.Nil(t, driver)
	require.Equal(t, status.Unavailable, status.CodeOf(err))
	require.ErrorContains(t, err, "without cgo")
}
