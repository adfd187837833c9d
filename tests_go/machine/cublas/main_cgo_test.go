//go:build cgo && linux && (amd64 || arm64)

// The tests run over the fake driver and the fake cuBLAS of tests_go/machine/fakecuda and tests_go/machine/fakecublas,
// which the loader finds like the the real ones. A process loads one cuBLAS for good, so what needs another, or none,
// runs in a child.
package cublas_test

import (
	"errors"
	"os"
	"sync"
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

const (
	folderEnv = "GPUCONF_CUBLAS_TEST_FOLDER" // location of the fake libraries
	childEnv  = "GPUCONF_CUBLAS_TEST_CHILD"  // job to run instead of the tests
)

// fake controls the driver that the tests run over.
var fake fakecuda.Driver

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		beChild()
		return
	}
	fakecuda.RunOver(m, folderEnv, func(folder string) error {
		return errors.Join(fakecuda.Build(folder, fakecuda.Options{}), fakecublas.Build(folder, fakecublas.Options{}))
	}, attach)
}

func attach() (err error) {
	fake, err = fakecuda.Attach()
	return err
}

// scratch is a pool for operations, with accounting.
type scratch struct {
	driver  gpu.Driver
	ordinal int
	refusal error

	mu    sync.Mutex
	sizes []uint64 // requested sizes
	live  int
}

func (s *scratch) Allocate(bytes uint64) (addr uint64, free func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = append(s.sizes, bytes)
	if s.refusal != nil {
		return 0, nil, s.refusal
	}
	addr, err = s.driver.MemAlloc(s.ordinal, bytes)
	if err != nil {
		return 0, nil, err
	}
	s.live++
	return addr, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.live--
		return s.driver.MemFree(s.ordinal, addr)
	}, nil
}

// configure restarts the fake driver with other GPUs, until the test ends.
func configure(t *testing.T, environ map[string]string) {
	t.Helper()
	for name, value := range environ {
		t.Setenv(name, value)
	}
	fake.Restart()
	t.Cleanup(func() {
		require.Empty(t, fake.Live(), "something was not given back")
		fake.Restart()
	})
}

// open opens the driver, retains a GPU's context, and returns cuBLAS there, until the test ends.
func open(t *testing.T, ordinal int) (cublas.Driver, gpu.Compute, *scratch) {
	t.Helper()
	opened := attempt.Get(cuda.Open())
	driver := opened.(cublas.Driver)
	require.NoError(t, driver.ContextRetain(ordinal))
	pool := &scratch{driver: driver, ordinal: ordinal}
	t.Cleanup(func() {
		require.Zero(t, pool.live, "scratch memory was not given back")
		require.NoError(t, driver.Close())
		if blas, err := fakecublas.Attach("libcublas.so.12"); err == nil {
			require.Zero(t, blas.Live(), "a handle was not destroyed")
			require.Empty(t, blas.Complaint())
		}
	})
	return driver, cublas.New(driver, nil).On(ordinal, pool), pool
}

// put writes values to new memory of a GPU.
func put(t *testing.T, driver gpu.Driver, ordinal int, raw []byte) uint64 {
	t.Helper()
	addr := attempt.Get(driver.MemAlloc(ordinal, max(uint64(len(raw)), 1)))
	require.NoError(t, driver.MemcpyHtoD(ordinal, addr, raw))
	return addr
}

func requireCode(t *testing.T, code status.Code, err error, text string) {
	t.Helper()
	require.ErrorContains(t, err, text)
	require.Equal(t, code, status.CodeOf(err), "%v", err)
}
