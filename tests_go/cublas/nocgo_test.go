//go:build !cgo

package cublas_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/cublas"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

func TestComputeWithoutCgoSaysSo(t *testing.T) {
	compute := cublas.New(nil, nil).On(0, nil)
	for _, err := range []error{compute.Gemm(gpu.Gemm{}), compute.Add(gpu.Add{})} {
		require.Equal(t, status.Unavailable, status.CodeOf(err))
		require.ErrorContains(t, err, "without cgo")
	}
}
