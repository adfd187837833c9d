//go:build !cgo || !linux || !(amd64 || arm64)

package blas_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/blas"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
	"gpuconf/tests_go/computetest"
)

func TestWithoutCgo(t *testing.T) {
	computetest.TestCompute(t, func(t *testing.T) computetest.Device { return device(t, blas.New("", nil)) })
	about, err := blas.New("", nil).Describe()
	require.NoError(t, err)
	require.Empty(t, about.Library)
	require.Len(t, about.Complaints, 1)
	done, err := blas.New("/x", nil).Gemm(gpu.Gemm{DType: gpu.Float32, M: 100, N: 100, K: 100, A: 64, B: 64, C: 64})
	require.False(t, done)
	require.Equal(t, status.InvalidArgument, status.CodeOf(err))
}
