//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

func isResult(err error, want gpu.Result) bool { return errors.Is(err, want) }

func TestThreadsContextStaysAsItWas(t *testing.T) {
	configure(t, map[string]string{"FAKECUDA_GPUS": "2"})
	driver := open(t)
	for ordinal := range 2 {
		require.NoError(t, driver.ContextRetain(ordinal))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.Zero(t, fake.Depth(), "retaining made a context current")

	t.Run("no context", func(t *testing.T) {
		attempt.Get(driver.MemAlloc(1, mib))
		_, err := driver.MemAlloc(1, 4<<30)
		require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
		require.Zero(t, fake.Depth())
	})
	t.Run("another program's", func(t *testing.T) {
		unchanged := inForeignContext(t)
		require.NoError(t, useEverything())
		unchanged()
		_, err := driver.MemAlloc(1, 4<<30)
		require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
		require.ErrorIs(t, driver.MemFree(1, 4096), gpu.ErrorInvalidValue)
		unchanged()
	})
	t.Run("the primary one of another GPU", func(t *testing.T) {
		primary := attempt.Get(fake.Retain(0))
		require.NoError(t, fake.SetCurrent(primary))
		addr := attempt.Get(driver.MemAlloc(1, mib))
		require.Equal(t, primary, fake.Current())
		require.Equal(t, 1, fake.Depth())
		free, total, err := driver.MemGetInfo(0)
		require.NoError(t, err)
		require.Equal(t, total, free, "GPU 1's memory was taken from GPU 0")
		require.NoError(t, driver.MemFree(1, addr))
		require.NoError(t, fake.SetCurrent(nil))
		require.NoError(t, fake.Release(0))
	})
	t.Run("the right one already", func(t *testing.T) {
		primary := attempt.Get(fake.Retain(1))
		require.NoError(t, fake.SetCurrent(primary))
		pushed := fake.Count("cuCtxPushCurrent")
		addr := attempt.Get(driver.MemAlloc(1, mib))
		require.NoError(t, driver.MemFree(1, addr))
		require.Equal(t, pushed, fake.Count("cuCtxPushCurrent"), "pushed a context that was current")
		require.Equal(t, primary, fake.Current())
		require.NoError(t, fake.SetCurrent(nil))
		require.NoError(t, fake.Release(1))
	})
}

func TestOnlyPrimaryContextsAreUsed(t *testing.T) {
	configure(t, nil)
	created := fake.Count("cuCtxCreate")
	require.NoError(t, useEverything())
	require.Equal(t, created, fake.Count("cuCtxCreate"))
}

// TestOthersKeepTheContext: the last release ends our resources, and nothing else.
func TestOthersKeepTheContext(t *testing.T) {
	for name, end := range map[string]func(gpu.Driver) error{
		"ContextRelease": func(driver gpu.Driver) error { return driver.ContextRelease(0) },
		"Close":          func(driver gpu.Driver) error { return driver.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			configure(t, nil)
			driver := open(t)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			context := attempt.Get(fake.Retain(0))
			require.NoError(t, fake.SetCurrent(context))
			theirs := attempt.Get(fake.Alloc(3 * mib))

			require.NoError(t, driver.ContextRetain(0))
			leaveThingsLive(t, driver)
			require.ErrorIs(t, driver.MemFree(0, theirs), gpu.ErrorInvalidValue, "it was never ours")
			require.NoError(t, end(driver))

			require.Equal(t, map[string]int{"retains": 1, "allocations": 1}, fake.Live())
			require.NoError(t, fake.Free(theirs))
			require.NoError(t, fake.SetCurrent(nil))
			require.NoError(t, fake.Release(0))
		})
	}
}

// leaveThingsLive leaves one resource of each kind that belongs to a context.
func leaveThingsLive(t *testing.T, driver gpu.Driver) {
	t.Helper()
	attempt.Get(driver.MemAlloc(0, mib))
	attempt.Get(driver.MemHostAlloc(0, 4096))
	attempt.Get(driver.StreamCreate(0, gpu.StreamDefault, 0))
	attempt.Get(driver.EventCreate(0))
}

func TestCloseGivesBackMappings(t *testing.T) {
	configure(t, nil)
	driver := open(t)
	require.NoError(t, driver.ContextRetain(0))
	addr := attempt.Get(driver.MemAddressReserve(8*mib, 0))
	handle := attempt.Get(driver.MemCreate(0, 2*mib))
	for _, offset := range []uint64{0, 4 * mib} {
		require.NoError(t, driver.MemMap(addr+offset, 2*mib, handle))
		require.NoError(t, driver.MemSetAccess(0, addr+offset, 2*mib))
	}
	leaveThingsLive(t, driver)
	require.NoError(t, driver.Close())
	require.Empty(t, fake.Live())
}

// TestReleaseThatFails: the context stays retained, and can be released again.
func TestReleaseThatFails(t *testing.T) {
	configure(t, nil)
	driver := open(t)
	require.NoError(t, driver.ContextRetain(0))
	fake.Fail("cuDevicePrimaryCtxRelease", 0, int(gpu.ErrorUnknown))
	require.ErrorIs(t, driver.ContextRelease(0), gpu.ErrorUnknown)
	_, _, err := driver.MemGetInfo(0)
	require.NoError(t, err)
	require.NoError(t, driver.ContextRelease(0))
	require.ErrorIs(t, driver.ContextRelease(0), gpu.ErrorInvalidContext)
}

func TestRetainThatFails(t *testing.T) {
	configure(t, nil)
	driver := open(t)
	fake.Fail("cuDevicePrimaryCtxRetain", 0, int(gpu.ErrorOutOfMemory))
	require.ErrorIs(t, driver.ContextRetain(0), gpu.ErrorOutOfMemory)
	require.ErrorIs(t, driver.ContextRelease(0), gpu.ErrorInvalidContext)
	require.NoError(t, driver.ContextRetain(0))
	require.NoError(t, driver.ContextRelease(0))
}
