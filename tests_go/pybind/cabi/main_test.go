//go:build cgo

package cabi_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
	"gpuconf/tests_go/machine/fakecuda"
	"gpuconf/tests_go/must"
)

func TestMain(m *testing.M) { fakecuda.RunShipped(m) }

// onThread lets a test keep its thread, because scopes and tags belong to threads, and takes them from it at the end.
func onThread(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(func() {
		cabi.SetScope(0, cabi.NoScope)
		cabi.SetTag(0)
		runtime.UnlockOSThread()
	})
}

// onMachine creates the logical GPUs of a machine for a test, which must free what it allocates.
func onMachine(t *testing.T, spec string, env config.Env) {
	onThread(t)
	p := process.Shared()
	must.OK2(p.Simulate(spec))(t)
	t.Cleanup(func() {
		must.OK2(p.Simulate(""))(t, "a test has left something behind")
		p.DrainNotices()
	})
	create(t, env)
}

// create lists the devices and creates the logical GPUs.
func create(t *testing.T, env config.Env) {
	must.OK2(process.Shared().Enumerate(env))(t)
	must.OK(process.Shared().Initialize(env, "main.py:1 (test)"))(t)
}

// requireMarked fails unless an error has the form that Python reads, and returns its text.
func requireMarked(t *testing.T, want status.Code, err error) string {
	require.Error(t, err)
	text := process.Unmark(err)
	require.EqualError(t, err, "\x1e"+want.String()+"\x1e"+text)
	return text
}
