//go:build cgo && linux && (amd64 || arm64)

package cublas_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/computetest"
)

func TestConformance(t *testing.T) {
	for name, row := range map[string]struct {
		environ map[string]string
		ordinal int
		delay   int
	}{
		"one GPU":        {delay: 300}, // so that work runs later
		"the second GPU": {environ: map[string]string{"FAKECUDA_GPUS": "2"}, ordinal: 1},
	} {
		t.Run(name, func(t *testing.T) {
			configure(t, row.environ)
			computetest.TestCompute(
				t, func(t *testing.T) computetest.Device { return device(t, row.ordinal, row.delay) })
		})
	}
}

func device(t *testing.T, ordinal, delay int) computetest.Device {
	driver, compute, _ := open(t, ordinal)
	fake.Delay(delay)
	return computetest.Device{
		Compute: compute,
		Allocate: func(bytes uint64) uint64 {
			return attempt.Get(driver.MemAlloc(ordinal, bytes))
		},
		Write: func(addr uint64, src []byte) { require.NoError(t, driver.MemcpyHtoD(ordinal, addr, src)) },
		Read:  func(dst []byte, addr uint64) { require.NoError(t, driver.MemcpyDtoH(ordinal, dst, addr)) },
		Lacks: []gpu.DType{gpu.Int32},
	}
}

// TestConformanceInsideAnotherContext: the thread's own current context does not change.
func TestConformanceInsideAnotherContext(t *testing.T) {
	configure(t, map[string]string{"FAKECUDA_GPUS": "2"})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	driver, compute, _ := open(t, 1)
	foreign := attempt.Get(fake.Create(0))
	addr := put(t, driver, 1, make([]byte, 64))
	require.NoError(t, compute.Gemm(gpu.Gemm{DType: gpu.Float32, M: 2, N: 2, K: 2, A: addr, B: addr, C: addr + 32}))
	require.NoError(t, compute.Add(gpu.Add{DType: gpu.Float64, Count: 2, Out: gpu.Vector{Addr: addr, Step: 1},
		A: gpu.Vector{Addr: addr, Step: 1}, B: gpu.Vector{Addr: addr + 32}}))
	require.Equal(t, foreign, fake.Current())
	require.Equal(t, 1, fake.Depth())
	require.NoError(t, driver.Close())
	require.Equal(t, foreign, fake.Current())
	require.NoError(t, fake.Destroy(foreign))
}
