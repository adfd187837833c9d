//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/fakecuda"
)

// inForeignContext gives this thread, until the test ends, a current context that is not the driver's, on top of
// another one. It returns a function that checks that the stack is unchanged.
func inForeignContext(t *testing.T) (unchanged func()) {
	t.Helper()
	runtime.LockOSThread()
	below := attempt.Get(fake.Create(0))
	foreign := attempt.Get(fake.Create(0))
	t.Cleanup(func() {
		require.NoError(t, fake.Destroy(foreign))
		require.NoError(t, fake.Destroy(below))
		require.Zero(t, fake.Depth())
		runtime.UnlockOSThread()
	})
	return func() {
		t.Helper()
		require.Equal(t, foreign, fake.Current(), "the thread's current context is another one")
		require.Equal(t, 2, fake.Depth(), "the thread's stack of contexts has changed")
	}
}

// functions are the names in the binding's table, without those that are called while the library is being loaded.
func functions(t *testing.T) map[string]bool {
	t.Helper()
	table := attempt.Get(os.ReadFile(filepath.Join(fakecuda.Source(), "..", "..", "machine", "cuda", "symbols.h")))
	names := map[string]bool{}
	for _, match := range regexp.MustCompile(`X\((cu\w+), "`).FindAllSubmatch(table, -1) {
		names[string(match[1])] = true
	}
	delete(names, "cuDriverGetVersion")
	delete(names, "cuUserObjectRelease") // TestAGraphThatKeepsNothing
	require.Greater(t, len(names), 45)
	return names
}

// TestEveryCallFailsOnce runs a session once for each call into the library, and makes that call fail.
func TestEveryCallFailsOnce(t *testing.T) {
	configure(t, map[string]string{"GPUCONF_SIMULATE": "2xH100-80GB:1GiB"})
	open(t) // allows the foreign contexts to be created
	unchanged := inForeignContext(t)
	left := functions(t)
	for nth := 0; ; nth++ {
		before := fake.Fired()
		fake.Fail("*", nth, int(gpu.ErrorUnknown))
		err := useEverything()
		fake.Clear()
		unchanged()
		require.Empty(t, fake.Live(), "call %d, %s", nth, fake.FiredName())
		if fake.Fired() == before {
			require.NoError(t, err)
			break
		}
		switch name := fake.FiredName(); name {
		case "cuCtxPopCurrent", "cuCtxPopCurrent, when done", "cuDeviceCanAccessPeer": // there is an alternative
			require.NoError(t, err)
		case "cuThreadExchangeStreamCaptureMode": // on the way out there is a second attempt
			if err != nil {
				require.ErrorIs(t, err, gpu.ErrorUnknown)
			}
		case "cuDeviceGetAttribute": // an attribute that the driver does not know counts as a missing feature
			if err != nil {
				require.True(t, isOneOf(err, gpu.ErrorUnknown, gpu.ErrorNotSupported), "%v", err)
			}
		default:
			require.ErrorIs(t, err, gpu.ErrorUnknown, "%s failed without an error", name)
		}
		delete(left, fake.FiredName())
	}
	require.Empty(t, left, "functions that never failed")
}

func isOneOf(err error, results ...gpu.Result) bool {
	for _, result := range results {
		if isResult(err, result) {
			return true
		}
	}
	return false
}

// TestWaysBack: if popping fails there is another way to restore the thread's own context. If that fails too, the call
// was done all the same, and its result says so.
func TestWaysBack(t *testing.T) {
	configure(t, nil)
	driver := open(t)
	require.NoError(t, driver.ContextRetain(0))
	inForeignContext(t)
	foreign := fake.Current()
	fail := func(names ...string) {
		for _, name := range names {
			fake.Fail(name, 0, int(gpu.ErrorUnknown))
		}
	}
	fail("cuCtxPopCurrent", "cuCtxPopCurrent")
	addr := attempt.Get(driver.MemAlloc(0, mib))
	require.Equal(t, foreign, fake.Current())
	require.Equal(t, 3, fake.Depth())
	require.NoError(t, fake.SetCurrent(nil))

	fail("cuCtxPopCurrent", "cuCtxPopCurrent", "cuCtxSetCurrent")
	require.NoError(t, driver.MemsetD8(0, addr, 1, mib))
	require.NotEqual(t, foreign, fake.Current())
	require.NoError(t, fake.SetCurrent(nil))
	require.NoError(t, driver.MemFree(0, addr))
}

// TestTwoCallsFail makes the undo fail too: what a driver refuses to free is dropped with its context.
func TestTwoCallsFail(t *testing.T) {
	configure(t, nil)
	for _, pair := range [][2]string{
		{"cuMemcpyHtoD", "cuMemFree"}, {"cuMemAllocManaged", "cuMemFree"}, {"cuMemsetD8", "cuDevicePrimaryCtxRelease"},
		{"cuMemSetAccess", "cuMemUnmap"},
		{"cuMemSetAccess", "cuMemRelease"}, {"cuMemCreate", "cuMemAddressFree"}, {"cuEventRecord", "cuStreamDestroy"},
		{"cuEventRecord", "cuEventDestroy"}, {"cuEventRecord", "cuMemFreeHost"},
	} {
		t.Run(pair[0]+" and "+pair[1], func(t *testing.T) {
			before := fake.Fired()
			fake.Fail(pair[0], 0, int(gpu.ErrorUnknown))
			fake.Fail(pair[1], 0, int(gpu.ErrorOutOfMemory))
			err := useEverything()
			require.Equal(t, before+2, fake.Fired())
			require.ErrorIs(t, err, gpu.ErrorUnknown)
			require.ErrorIs(t, err, gpu.ErrorOutOfMemory)
			require.Empty(t, fake.Live(), "Close frees what was refused once")
		})
	}
}

// TestAGraphThatKeepsNothing: an object that a graph refuses to retain is released.
func TestAGraphThatKeepsNothing(t *testing.T) {
	configure(t, nil)
	for name, fails := range map[string]int{"once": 1, "twice": 2} {
		before := fake.Count("cuUserObjectRelease")
		fake.Fail("cuGraphRetainUserObject", 0, int(gpu.ErrorUnknown))
		if fails == 2 {
			fake.Fail("cuUserObjectRelease", 0, int(gpu.ErrorUnknown))
		}
		require.ErrorIs(t, useEverything(), gpu.ErrorUnknown, name)
		require.Equal(t, before+fails, fake.Count("cuUserObjectRelease"), name)
	}
}
