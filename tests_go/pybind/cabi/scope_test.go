//go:build cgo

package cabi_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
)

func TestAScopeKeepsEveryNumber(t *testing.T) {
	onThread(t)
	for _, number := range []int64{0, 1, 63, math.MaxInt32, cabi.NoScope, cabi.ScopeMissing} {
		cabi.SetScope(process.Shared().Generation(), number)
		require.Equal(t, number, cabi.Scope())
		for _, other := range []uint32{1, 1 << 31, math.MaxUint32} {
			cabi.SetScope(process.Shared().Generation()+other, number)
			require.EqualValues(t, cabi.NoScope, cabi.Scope())
		}
	}
}

// A thread begins without a scope and without a tag, and what it sets is its own.
func TestScopesAndTagsBelongToThreads(t *testing.T) {
	onThread(t)
	cabi.SetScope(process.Shared().Generation(), 1)
	cabi.SetTag(7)
	type own struct {
		scope int64
		tag   holder.Tag
	}
	seen := make(chan own)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, its scope and its tag end with the goroutine
		seen <- own{cabi.Scope(), cabi.Tag()}
		cabi.SetScope(process.Shared().Generation(), 2)
		cabi.SetTag(8)
		seen <- own{cabi.Scope(), cabi.Tag()}
	}()
	require.Equal(t, own{cabi.NoScope, 0}, <-seen)
	require.Equal(t, own{2, 8}, <-seen)
	require.Equal(t, own{1, 7}, own{cabi.Scope(), cabi.Tag()})
}

// A reset cannot change the scopes of other threads. So one that was entered before it counts as no scope.
func TestAScopeEndsWithItsDevices(t *testing.T) {
	onMachine(t, "2xT4:1GiB", nil)
	cabi.SetScope(process.Shared().Generation(), 1)
	require.EqualValues(t, 1, cabi.Scope())
	require.NoError(t, process.Shared().Reset())
	require.EqualValues(t, cabi.NoScope, cabi.Scope())
	create(t, nil)
	require.EqualValues(t, cabi.NoScope, cabi.Scope(), "GPU:1 of other devices is another GPU")
	_, number, err := cabi.LogicalGPU(-1, cabi.Scope)
	require.NoError(t, err)
	require.Zero(t, number)
}

func TestATagKeepsEveryNumber(t *testing.T) {
	onThread(t)
	for _, tag := range []holder.Tag{1, holder.Tag(holder.MostTags), holder.Other, 0} {
		cabi.SetTag(tag)
		require.Equal(t, tag, cabi.Tag())
		require.Equal(t, holder.Of(holder.Gpuconf, tag), process.Holder(), "what gpuconf allocates on this thread")
	}
}
