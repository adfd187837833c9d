//go:build cgo

package pybind_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/pybind"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
	"gpuconf/tests_go/must"
)

const task = "/job:localhost/replica:0/task:0"

func TestScopeNamesALogicalGPU(t *testing.T) {
	onMachine(t, "2xT4:1GiB")
	initialize(t)
	for name, want := range map[string]int64{
		"":                     cabi.NoScope,
		task + "/device:GPU:0": 0,
		task + "/device:GPU:1": 1,
		"/gpu:1":               1,
		task + "/device:GPU:*": 0, // any GPU is the first
		"/device:GPU":          0,
		task + "/device:CPU:0": cabi.NoScope,
		task + "/device:CPU:7": cabi.NoScope,
		task + "/device:GPU:2": cabi.ScopeMissing,
		task + "/device:XPU:0": cabi.ScopeMissing,
		"/job:worker/replica:0/task:0/device:GPU:0": cabi.ScopeMissing,
		task:                cabi.ScopeMissing,
		"GPU:0":             cabi.ScopeMissing, // not a full name
		"/device:GPU:-1":    cabi.ScopeMissing,
		"no \x00 name \xff": cabi.ScopeMissing,
	} {
		require.Equal(t, want, must.OK(pybind.ScopeNumber(name))(t), "scope %q", name)
	}
}

func TestAllocationsFollowTheScope(t *testing.T) {
	onMachine(t, "2xT4:1GiB")
	initialize(t)
	gpuOf := func(number int64) int64 {
		b := allocate(t, number, 1)
		b.free(t)
		return b.gpu
	}
	require.EqualValues(t, 0, gpuOf(-1), "without a scope GPU:0")
	for name, want := range map[string]int64{task + "/device:GPU:1": 1, task + "/device:GPU:0": 0, task +
		"/device:CPU:0": 0} {
		enter(t, name)
		require.Equal(t, want, gpuOf(-1), name)
		require.EqualValues(t, 1, gpuOf(1), "a number is a number")
	}
	enter(t, task+"/device:GPU:9")
	for _, call := range []func() (any, error){
		func() (any, error) { return take(-1, 1) },
		func() (any, error) { return pybind.StartPeak(-1) },
		func() (any, error) { return pybind.Frees(-1) },
		func() (any, error) { return pybind.LimitBytes(-1) },
		func() (any, error) { return pybind.WaitForFree(-1, 0, 0) },
	} {
		require.Contains(t, requireKind(t, status.InvalidArgument, must.Err(call())),
			"this thread's device scope names an unknown GPU")
	}
	require.EqualValues(t, 0, gpuOf(0))
}

// A reset cannot change the scopes of other threads. So one that was entered before it counts as no scope.
func TestScopeEndsWithItsGeneration(t *testing.T) {
	onMachine(t, "2xT4:1GiB")
	initialize(t)
	generation := process.Shared().Generation()
	enter(t, task+"/device:GPU:1")
	require.EqualValues(t, 1, cabi.Scope())

	must.OK(pybind.Reset())(t)
	require.Equal(t, generation+1, process.Shared().Generation())
	require.EqualValues(t, cabi.NoScope, cabi.Scope())
	initialize(t)
	require.EqualValues(t, cabi.NoScope, cabi.Scope(), "GPU:1 of other devices is another GPU")
	b := allocate(t, -1, 1)
	require.EqualValues(t, 0, b.gpu)
	b.free(t)

	cabi.SetScope(generation, 1) // like a thread that looked its GPU up before the reset
	require.EqualValues(t, cabi.NoScope, cabi.Scope())
}
