package host_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/host"
)

// BenchmarkGemm compares a product by address with a direct call of gonum. The two alternate, and the best time of each
// counts, so that a busy machine affects both alike.
func BenchmarkGemm(b *testing.B) {
	const n = 512
	values := make([]float32, n*n)
	for i := range values {
		values[i] = float32(i%13) - 6
	}
	raw, err := binary.Append(nil, binary.NativeEndian, values)
	require.NoError(b, err)
	var m host.Memory
	a, id, err := m.Allocate(4 * n * n)
	require.NoError(b, err)
	c, _, err := m.Allocate(4 * n * n)
	require.NoError(b, err)
	require.NoError(b, m.CopyFromHost(a, id, 0, raw))
	direct := make([]float32, n*n)
	bestDirect, bestHost := time.Hour, time.Hour
	for b.Loop() {
		began := time.Now()
		gonum.Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, values, n, values, n, 0, direct, n)
		bestDirect = min(bestDirect, time.Since(began))
		began = time.Now()
		require.NoError(b, host.Compute{}.Gemm(gpu.Gemm{DType: gpu.Float32, M: n, N: n, K: n, A: a, B: a, C: c}))
		bestHost = min(bestHost, time.Since(began))
	}
	b.ReportMetric(bestHost.Seconds()/bestDirect.Seconds(), "x-gonum")
	require.NoError(b, m.Close())
}
