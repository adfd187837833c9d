package host_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/host"
)

// BenchmarkGemm compares a product by address with gonum called directly.
func BenchmarkGemm(b *testing.B) {
	const n = 512
	values := make([]float32, n*n)
	for i := range values {
		values[i] = float32(i%13) - 6
	}
	b.Run("gonum", func(b *testing.B) {
		c := make([]float32, n*n)
		for b.Loop() {
			gonum.Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, values, n, values, n, 0, c, n)
		}
	})
	b.Run("host", func(b *testing.B) {
		var m host.Memory
		a, _, err := m.Allocate(4 * n * n)
		require.NoError(b, err)
		c, _, err := m.Allocate(4 * n * n)
		require.NoError(b, err)
		raw, err := binary.Append(nil, binary.NativeEndian, values)
		require.NoError(b, err)
		require.NoError(b, m.Write(a, 0, raw))
		for b.Loop() {
			require.NoError(b, host.Compute{}.Gemm(gpu.Gemm{DType: gpu.Float32, M: n, N: n, K: n, A: a, B: a, C: c}))
		}
	})
}
