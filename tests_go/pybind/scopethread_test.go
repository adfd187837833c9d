//go:build cgo && cgo

package pybind_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/pybind/cabi"
)

func TestScopeBelongsToAThread(t *testing.T) {
	onMachine(t, "2xT4:1GiB")
	initialize(t)
	enter(t, task+"/device:GPU:1")
	seen := make(chan int64)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread and its scope end with the goroutine
		seen <- cabi.Scope()
		cabi.SetScope(0, 0)
		seen <- cabi.Scope()
	}()
	require.EqualValues(t, cabi.NoScope, <-seen, "a new thread has none")
	<-seen
	require.EqualValues(t, 1, cabi.Scope(), "what another thread enters is its own")
}
