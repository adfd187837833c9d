//go:build cgo && linux && (amd64 || arm64)

package cublas_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/cublas"
	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/fakecublas"
	"gpuconf/tests_go/machine/fakecuda"
)

// useEverything opens a driver and runs every operation, with both types, in all forms. It stops at the first failure.
// left receives the number of pieces of scratch memory that were not freed.
func useEverything(left *int) (err error) {
	defer attempt.Catch(&err)
	opened := attempt.Get(cuda.Open())
	driver := opened.(cublas.Driver)
	pool := &scratch{driver: driver}
	defer func() { *left, err = pool.live, errors.Join(err, driver.Close()) }()
	attempt.Do(driver.ContextRetain(0))
	defer func() { err = errors.Join(err, driver.ContextRelease(0)) }()
	addr := attempt.Get(driver.MemAlloc(0, 4096))
	defer func() { err = errors.Join(err, driver.MemFree(0, addr)) }()
	attempt.Do(driver.MemsetD8(0, addr, 0, 4096))
	compute := cublas.New(driver, nil).On(0, pool)
	for _, dtype := range []gpu.DType{gpu.Float32, gpu.Float64} {
		out, row := gpu.Vector{Addr: addr + 2048, Step: 1}, gpu.Vector{Addr: addr, Step: 1}
		err := errors.Join(
			compute.Gemm(gpu.Gemm{DType: dtype, M: 2, N: 3, K: 4, TransB: true, A: addr, B: addr + 1024,
				C: addr + 2048}),
			compute.Gemm(gpu.Gemm{DType: dtype, M: 2, N: 3, C: addr + 2048}),
			compute.Add(gpu.Add{DType: dtype, Count: 9, Out: out, A: row, B: row}),
			compute.Add(gpu.Add{DType: dtype, Count: 9, Out: out, A: gpu.Vector{Addr: addr},
				B: gpu.Vector{Addr: addr, Step: 2}}),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// functions are the names in the binding's table that useEverything calls.
func functions(t *testing.T) map[string]bool {
	t.Helper()
	table := attempt.Get(os.ReadFile(filepath.Join(fakecuda.Source(), "..", "..", "machine", "cublas", "symbols.h")))
	names := map[string]bool{}
	for _, match := range regexp.MustCompile(`X\((cublas\w+?)(_v2)?, 11,`).FindAllSubmatch(table, -1) {
		names[string(match[1])] = true
	}
	delete(names, "cublasGetProperty") // is called while the library is being loaded
	require.Len(t, names, 8)
	return names
}

// TestEveryCallFailsOnce runs all operations once for each call into the driver or cuBLAS, and makes that call fail.
func TestEveryCallFailsOnce(t *testing.T) {
	configure(t, nil)
	left := 0
	require.NoError(t, useEverything(&left))
	blas := attempt.Get(fakecublas.Attach("libcublas.so.12"))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	foreign := attempt.Get(fake.Create(0))
	never := functions(t)
	for nth := 0; ; nth++ {
		before := fake.Fired()
		fake.Fail("*", nth, 13)
		err := useEverything(&left)
		fake.Clear()
		name := fake.FiredName()
		require.Equal(t, foreign, fake.Current(), name)
		require.Equal(t, 1, fake.Depth(), name)
		require.Zero(t, left, "scratch memory was not given back when %s failed", name)
		require.Empty(t, fake.Live(), "call %d, %s", nth, name)
		require.Zero(t, blas.Live(), name)
		require.Empty(t, blas.Complaint(), name)
		if fake.Fired() == before {
			require.NoError(t, err)
			break
		}
		switch name {
		case "cuCtxPopCurrent", "cuCtxPopCurrent, when done", "cuCtxGetCurrent", "cuCtxPushCurrent",
			"cuDeviceGetAttribute", "cublasDestroy",
			"cuThreadExchangeStreamCaptureMode":
			// There is an alternative, or nothing to do.
		default:
			require.Error(t, err, "%s failed without an error", name)
		}
		delete(never, regexp.MustCompile(`_v2$`).ReplaceAllString(name, ""))
	}
	require.Empty(t, never, "functions that never failed")
	require.NoError(t, fake.Destroy(foreign))
}

func TestWhatCublasSaysIsAnErrorOfItsKind(t *testing.T) {
	configure(t, nil)
	driver, compute, pool := open(t, 0)
	addr := put(t, driver, 0, make([]byte, 64))
	g := gpu.Gemm{DType: gpu.Float32, M: 1, N: 1, K: 1, A: addr, B: addr + 4, C: addr + 8}
	for _, row := range []struct {
		call   string
		answer int
		code   status.Code
		text   string
	}{
		{"cublasCreate", 1, status.Unavailable, "cuBLAS 12.4.5 failed on GPU 0 (creating a handle): " +
			"CUBLAS_STATUS_NOT_INITIALIZED (1): its CUDA runtime"},
		{"cublasCreate", 3, status.ResourceExhausted, "CUBLAS_STATUS_ALLOC_FAILED (3): cuBLAS needs some GPU memory " +
			"outside the pools"},
		{"cublasCreate", 8, status.Unavailable, "CUBLAS_STATUS_ARCH_MISMATCH (8): this version does not support the " +
			"GPU"},
		{"cublasSetMathMode", 15, status.Unimplemented, "CUBLAS_STATUS_NOT_SUPPORTED (15)"},
		{"cublasSetWorkspace", 7, status.Internal, "failed on GPU 0 (a product): CUBLAS_STATUS_INVALID_VALUE (7)"},
		{"cublasSgemm_v2", 13, status.Unknown, "CUBLAS_STATUS_EXECUTION_FAILED (13)"},
		{"cublasSgemm_v2", 99, status.Unknown, "CUBLAS_STATUS (99)"},
	} {
		fake.Fail(row.call, 0, row.answer)
		err := compute.Gemm(g)
		requireCode(t, row.code, err, row.text)
		var answer cublas.Status
		require.ErrorAs(t, err, &answer)
		require.Equal(t, cublas.Status(row.answer), answer)
		require.Zero(t, pool.live)
	}
	require.NoError(t, compute.Gemm(g), "and then all is well")
}

// refusing is a driver whose contexts are about to end, so that nothing may be left in them.
type refusing struct{ cublas.Driver }

func (refusing) AtContextEnd(int, func(bool)) error { return gpu.ErrorInvalidContext }

// TestAHandleThatCannotStayIsDestroyed if any step after its creation fails.
func TestAHandleThatCannotStayIsDestroyed(t *testing.T) {
	configure(t, nil)
	driver, compute, pool := open(t, 0)
	addr := put(t, driver, 0, make([]byte, 64))
	g := gpu.Gemm{DType: gpu.Float32, M: 1, N: 1, K: 1, A: addr, B: addr + 4, C: addr + 8}
	fake.Fail("cublasSetMathMode", 0, 15)
	require.Error(t, compute.Gemm(g))
	blas := attempt.Get(fakecublas.Attach("libcublas.so.12"))
	require.Zero(t, blas.Live())
	require.ErrorIs(t, cublas.New(refusing{driver}, nil).On(0, pool).Gemm(g), gpu.ErrorInvalidContext)
	require.Zero(t, blas.Live())
}

// TestWorkThatFailsIsToldByTheCallThatQueuedIt: the kernel uses memory that has been freed meanwhile.
func TestWorkThatFailsIsToldByTheCallThatQueuedIt(t *testing.T) {
	configure(t, nil)
	driver, compute, pool := open(t, 0)
	addr := put(t, driver, 0, make([]byte, 64))
	fake.Fail("cuStreamSynchronize", 0, int(gpu.ErrorIllegalAddress))
	err := compute.Gemm(gpu.Gemm{DType: gpu.Float32, M: 1, N: 1, K: 1, A: addr, B: addr + 4, C: addr + 8})
	require.ErrorIs(t, err, gpu.ErrorIllegalAddress)
	require.Zero(t, pool.live)
}
