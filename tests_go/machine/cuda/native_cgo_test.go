//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/fakecuda"
)

func native(t *testing.T) (gpu.Driver, gpu.Native) {
	t.Helper()
	driver := open(t)
	return driver, driver.(gpu.Native)
}

func TestVersionIsTheDrivers(t *testing.T) {
	configure(t, nil)
	_, n := native(t)
	require.Equal(t, 12040, n.Version())
}

// TestInContext checks fact 29.
func TestInContext(t *testing.T) {
	configure(t, map[string]string{"FAKECUDA_GPUS": "2"})
	driver, n := native(t)
	require.ErrorIs(t, n.InContext(1, func() error { t.Error("there is no context"); return nil }),
		gpu.ErrorInvalidContext)
	require.ErrorIs(t, n.InContext(2, nil), gpu.ErrorInvalidDevice)
	require.NoError(t, driver.ContextRetain(1))
	primary := attempt.Get(fake.Retain(1))
	unchanged := inForeignContext(t)

	failure := errors.New("the function's error")
	calls := 0
	require.Equal(t, failure, n.InContext(1, func() error {
		calls++
		require.Equal(t, primary, fake.Current())
		addr, err := driver.MemAlloc(1, mib)
		require.NoError(t, err, "it may call the driver")
		require.NoError(t, driver.MemFree(1, addr))
		require.Equal(t, primary, fake.Current())
		return failure
	}))
	unchanged()
	require.Panics(t, func() { _ = n.InContext(1, func() error { panic("in work") }) })
	unchanged()
	fake.Fail("cuCtxPushCurrent", 0, int(gpu.ErrorUnknown))
	require.ErrorIs(t, n.InContext(1, func() error { calls++; return nil }), gpu.ErrorUnknown)
	require.Equal(t, 1, calls)
	unchanged()
	require.NoError(t, fake.Release(1))
	require.NoError(t, driver.ContextRelease(1), "no function runs in the context")
}

// TestAContextWaitsForWhatRunsInIt: the last release comes while work is running.
func TestAContextWaitsForWhatRunsInIt(t *testing.T) {
	configure(t, nil)
	driver, n := native(t)
	require.NoError(t, driver.ContextRetain(0))
	inside, released := make(chan struct{}), make(chan error)
	go func() {
		<-inside
		released <- driver.ContextRelease(0)
	}()
	ended := false
	require.NoError(t, n.AtContextEnd(0, func(bool) { ended = true }))
	require.NoError(t, n.InContext(0, func() error {
		close(inside)
		for range 100 {
			runtime.Gosched()
		}
		require.False(t, ended)
		require.Equal(t, 1, fake.Live()["retains"])
		return nil
	}))
	require.NoError(t, <-released)
	require.True(t, ended)
}

// TestAtContextEnd checks fact 30.
func TestAtContextEnd(t *testing.T) {
	configure(t, nil)
	driver, n := native(t)
	require.ErrorIs(t, n.AtContextEnd(0, nil), gpu.ErrorInvalidContext)
	var order []string
	end := func(name string) func(bool) {
		return func(entered bool) {
			require.True(t, entered)
			require.NotEqual(t, fakecuda.Context(nil), fake.Current())
			require.Equal(t, 1, fake.Live()["allocations"], "what is left is there")
			order = append(order, name)
		}
	}
	for range 2 { // each context has its own
		order = nil
		require.NoError(t, driver.ContextRetain(0))
		require.NoError(t, driver.ContextRetain(0))
		attempt.Get(driver.MemAlloc(0, mib))
		require.NoError(t, n.AtContextEnd(0, end("first")))
		require.NoError(t, n.AtContextEnd(0, end("second")))
		require.NoError(t, driver.ContextRelease(0))
		require.Empty(t, order, "another library holds the context")
		require.NoError(t, driver.ContextRelease(0))
		require.Equal(t, []string{"second", "first"}, order)
	}
	require.NoError(t, driver.ContextRetain(0))
	order = nil
	attempt.Get(driver.MemAlloc(0, mib))
	require.NoError(t, n.AtContextEnd(0, end("closed")))
	require.NoError(t, driver.Close())
	require.Equal(t, []string{"closed"}, order)
}

func TestAtTheEndOfAContextThatCannotBeEntered(t *testing.T) {
	configure(t, nil)
	driver, n := native(t)
	for failures, want := range []bool{true, true, false} {
		require.NoError(t, driver.ContextRetain(0))
		var entered []bool
		require.NoError(t, n.AtContextEnd(0, func(e bool) { entered = append(entered, e) }))
		for range failures {
			fake.Fail("cuCtxPushCurrent", 0, int(gpu.ErrorUnknown))
		}
		require.NoError(t, driver.ContextRelease(0))
		require.Equal(t, []bool{want}, entered, "%d failures", failures)
	}
}
