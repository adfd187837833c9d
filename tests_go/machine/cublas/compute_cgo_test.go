//go:build cgo && linux && (amd64 || arm64)

package cublas_test

import (
	"encoding/binary"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/cublas"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/machine/fakecublas"
)

// TestAHandleEndsWithItsContext: each context has its own handle, created by the first operation.
func TestAHandleEndsWithItsContext(t *testing.T) {
	configure(t, nil)
	driver, compute, _ := open(t, 0)
	first := made(t, driver, compute)
	require.Equal(t, first, fake.Count("cublasCreate"), "an operation made another handle")
	blas, err := fakecublas.Attach("libcublas.so.12")
	require.NoError(t, err)
	require.Equal(t, 1, blas.Live())
	destroyed := fake.Count("cublasDestroy")
	require.NoError(t, driver.ContextRelease(0))
	require.Equal(t, destroyed+1, fake.Count("cublasDestroy"))
	require.Zero(t, blas.Live())

	err = compute.Gemm(gpu.Gemm{DType: gpu.Float32, M: 1, N: 1, K: 1, A: 4, B: 4, C: 4})
	require.Error(t, err, "there is no context")
	require.NoError(t, driver.ContextRetain(0))
	made(t, driver, compute)
	require.Equal(t, 1, blas.Live())
	require.Empty(t, blas.Complaint())
}

// made computes two products, and returns how many handles there were after the first.
func made(t *testing.T, driver gpu.Driver, compute gpu.Compute) int {
	t.Helper()
	addr := put(t, driver, 0, make([]byte, 64))
	g := gpu.Gemm{DType: gpu.Float64, M: 1, N: 1, K: 1, A: addr, B: addr + 8, C: addr + 16}
	require.NoError(t, compute.Gemm(g))
	count := fake.Count("cublasCreate")
	require.NoError(t, compute.Gemm(g))
	return count
}

// TestScratchMemoryDependsOnTheOperationAlone, because cuBLAS's order of summing depends on it.
func TestScratchMemoryDependsOnTheOperationAlone(t *testing.T) {
	configure(t, nil)
	driver, compute, pool := open(t, 0)
	addr := put(t, driver, 0, make([]byte, 8<<20))
	for _, row := range []struct {
		m, n uint64
		want uint64
	}{{1, 1, 16 << 10}, {2, 2, 16 << 10}, {32, 32, 32 << 10}, {128, 128, 512 << 10}, {1024, 512, 4 << 20}} {
		pool.sizes = nil
		require.NoError(t, compute.Gemm(gpu.Gemm{DType: gpu.Float32, M: row.m, N: row.n, K: 1, A: addr, B: addr,
			C: addr + 4<<20}))
		require.Equal(t, []uint64{row.want}, pool.sizes)
	}
	pool.sizes = nil
	one := gpu.Vector{Addr: addr, Step: 1}
	out := gpu.Vector{Addr: addr + 4<<20, Step: 1}
	require.NoError(t, compute.Add(gpu.Add{DType: gpu.Float32, Count: 100, Out: out, A: one, B: one}))
	require.NoError(t, compute.Add(gpu.Add{DType: gpu.Float32, Count: 1, Out: out, A: gpu.Vector{Addr: addr}, B: one}))
	require.Empty(t, pool.sizes, "a sum of vectors needs none")
	require.NoError(
		t, compute.Add(gpu.Add{DType: gpu.Float32, Count: 100, Out: out, A: gpu.Vector{Addr: addr}, B: one}))
	require.Equal(t, []uint64{400}, pool.sizes)
}

func TestWithoutScratchMemoryNothingIsDone(t *testing.T) {
	configure(t, nil)
	driver, compute, pool := open(t, 0)
	addr := put(t, driver, 0, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	pool.refusal = status.Errorf(status.ResourceExhausted, "the pool is full")
	for _, err := range []error{
		compute.Gemm(gpu.Gemm{DType: gpu.Float32, M: 1, N: 1, K: 1, A: addr, B: addr + 4, C: addr + 8}),
		compute.Add(gpu.Add{DType: gpu.Float32, Count: 2, Out: gpu.Vector{Addr: addr, Step: 1},
			A: gpu.Vector{Addr: addr}, B: gpu.Vector{Addr: addr, Step: 1}}),
	} {
		requireCode(t, status.ResourceExhausted, err, "the pool is full")
		requireCode(t, status.ResourceExhausted, err, "bytes of scratch memory")
	}
	got := make([]byte, 12)
	require.NoError(t, driver.MemcpyDtoH(0, got, addr))
	require.Equal(t, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, got)
}

// TestSumsInPieces: more elements than one call sums, next to a scalar and with gaps.
func TestSumsInPieces(t *testing.T) {
	configure(t, nil)
	driver, compute, _ := open(t, 0)
	const count = 1<<20 + 3
	raw := make([]byte, 0, 8*count)
	for i := range 2 * count {
		raw = binary.NativeEndian.AppendUint32(raw, math.Float32bits(float32(i)))
	}
	a, out := put(t, driver, 0, raw), put(t, driver, 0, make([]byte, 4*count+4))
	for _, row := range []struct {
		a, b  gpu.Vector
		calls int
		want  func(i int) float32
	}{
		{gpu.Vector{Addr: a, Step: 1}, gpu.Vector{Addr: a + 20}, 17, func(i int) float32 { return float32(i) + 5 }},
		{gpu.Vector{Addr: a + 4}, gpu.Vector{Addr: a + 20}, 17, func(int) float32 { return 6 }},
		{gpu.Vector{Addr: a, Step: 2}, gpu.Vector{Addr: a, Step: 1}, 2, func(i int) float32 { return float32(3 * i) }},
		{gpu.Vector{Addr: a, Step: 1}, gpu.Vector{Addr: a, Step: 1}, 1, func(i int) float32 { return float32(2 * i) }},
	} {
		before := fake.Count("cublasSgeam")
		require.NoError(t, compute.Add(gpu.Add{DType: gpu.Float32, Count: count, Out: gpu.Vector{Addr: out, Step: 1},
			A: row.a, B: row.b}))
		require.Equal(t, row.calls, fake.Count("cublasSgeam")-before)
		got := make([]byte, 4*count+4)
		require.NoError(t, driver.MemcpyDtoH(0, got, out))
		for _, i := range []int{0, 1, 1<<16 - 1, 1 << 16, 1<<20 - 1, 1 << 20, count - 1} {
			require.Equal(t, row.want(i), math.Float32frombits(binary.NativeEndian.Uint32(got[4*i:])), "element %d", i)
		}
		require.Equal(t, []byte{0, 0, 0, 0}, got[4*count:], "something behind the result was written")
	}
}

// TestTwoPoolsOfOneGPU share one handle.
func TestTwoPoolsOfOneGPU(t *testing.T) {
	configure(t, map[string]string{"FAKECUDA_GPUS": "2"})
	driver, _, first := open(t, 0)
	require.NoError(t, driver.ContextRetain(1))
	library := cublas.New(driver, nil)
	handles := fake.Count("cublasCreate")
	second, third := &scratch{driver: driver}, &scratch{driver: driver, ordinal: 1}
	addr, far := put(t, driver, 0, make([]byte, 64)), put(t, driver, 1, make([]byte, 64))
	var all sync.WaitGroup
	for _, one := range []struct {
		ordinal int
		pool    *scratch
		addr    uint64
	}{{0, first, addr}, {0, second, addr + 32}, {1, third, far}} {
		for range 3 {
			all.Go(func() {
				err := library.On(one.ordinal, one.pool).Gemm(gpu.Gemm{DType: gpu.Float32, M: 1, N: 1, K: 1,
					A: one.addr, B: one.addr + 4, C: one.addr + 8})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	require.Equal(t, handles+2, fake.Count("cublasCreate"))
	require.Len(t, second.sizes, 3)
	require.Len(t, third.sizes, 3)
}
