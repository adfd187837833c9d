//go:build cgo

package cabi_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
	"gpuconf/tests_go/must"
)

// take allocates on the GPU of a number or of the scope.
func take(number, nbytes int64) (cabi.Taken, error) {
	return cabi.Take(number, nbytes, holder.Of(holder.Gpuconf, 0), cabi.Scope)
}

// gpuOf returns the GPU that an allocation is on.
func gpuOf(t *testing.T, number int64) int {
	taken := must.OK(take(number, 1))(t)
	require.NoError(t, cabi.GiveBack(taken.Address, taken.ID))
	return taken.GPU
}

// inUse returns the bytes in use on GPU:0.
func inUse(t *testing.T) uint64 {
	m := must.OK(process.Shared().Manager())(t)
	return must.OK(m.MemoryStats("GPU:0"))(t).BytesInUse
}

// The GPU is the one that the call names, else that of the thread's scope, else GPU:0.
func TestTheGPUOfAnAllocation(t *testing.T) {
	onMachine(t, "3xT4:1GiB", nil)
	generation := process.Shared().Generation()
	require.Zero(t, gpuOf(t, -1))
	require.Equal(t, 2, gpuOf(t, 2))
	cabi.SetScope(generation, 1)
	require.Equal(t, 1, gpuOf(t, -1))
	require.Equal(t, 2, gpuOf(t, 2), "a number is a number")
	cabi.SetScope(generation, cabi.NoScope)
	require.Zero(t, gpuOf(t, -1))
	cabi.SetScope(generation, cabi.ScopeMissing)
	require.Contains(t, requireMarked(t, status.InvalidArgument, must.Err(take(-1, 1))),
		"this thread's device scope names an unknown GPU")
	require.Equal(t, 2, gpuOf(t, 2))
	_, _, err := cabi.LogicalGPU(-1, cabi.Scope)
	require.Equal(t, status.InvalidArgument, status.CodeOf(err), "%v", err)
	_, number, err := cabi.LogicalGPU(2, func() int64 {
		t.Error("a number needs no scope")
		return cabi.NoScope
	})
	require.NoError(t, err)
	require.Equal(t, 2, number)
}

// A block is freed once, and only with its id: its address may be another block's by then.
func TestABlockIsGivenBackOnce(t *testing.T) {
	onMachine(t, "T4:1GiB", nil)
	for name, giveBack := range map[string]func(address, id uint64) error{
		"GiveBack": cabi.GiveBack,
		"TryGiveBack": func(address, id uint64) error {
			tried, err := cabi.TryGiveBack(address, id)
			require.True(t, tried)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := must.OK(take(0, 1000))(t)
			require.EqualValues(t, 1024, inUse(t))
			require.NoError(t, giveBack(first.Address, first.ID))
			require.Zero(t, inUse(t))
			second := must.OK(take(0, 1000))(t)
			require.Equal(t, first.Address, second.Address)
			require.NotEqual(t, first.ID, second.ID)
			requireMarked(t, status.InvalidArgument, giveBack(first.Address, first.ID))
			require.EqualValues(t, 1024, inUse(t), "the other block stays")
			require.NoError(t, giveBack(second.Address, second.ID))
			requireMarked(t, status.InvalidArgument, giveBack(second.Address, second.ID))
		})
	}
	require.False(t, must.OK(cabi.TryGiveBack(1, 1))(t), "GiveBack explains addresses of no pool")
	requireMarked(t, status.InvalidArgument, cabi.GiveBack(1, 1))
}

func TestNothingIsNoBlock(t *testing.T) {
	onMachine(t, "T4:1GiB", nil)
	taken := must.OK(take(0, 0))(t)
	require.Zero(t, taken.ID)
	require.Zero(t, inUse(t))
	require.NoError(t, cabi.GiveBack(taken.Address, taken.ID))
}

// Python reads notices only where an allocation reports that some are pending.
func TestAnAllocationSaysThatNoticesArePending(t *testing.T) {
	onMachine(t, "T4:1GiB", config.Env{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "2048"}) // more than there is
	noticed := func() bool {
		taken := must.OK(take(0, 1))(t)
		require.NoError(t, cabi.GiveBack(taken.Address, taken.ID))
		return taken.Noticed
	}
	require.True(t, noticed())
	require.NotEmpty(t, process.Shared().DrainNotices())
	require.False(t, noticed())
}

// Errors have the form that Python reads. A call that fails takes nothing.
func TestAllocationsThatFail(t *testing.T) {
	onMachine(t, "T4:1GiB", nil)
	for _, row := range []struct {
		name           string
		number, nbytes int64
		code           status.Code
		want           string
	}{
		{"less than nothing", 0, -1, status.InvalidArgument, "nbytes must be at least 0, but got -1"},
		{"more than the GPU has", 0, 2 << 30, status.ResourceExhausted, "2.00GiB"},
		{"more than anything has", 0, math.MaxInt64, status.ResourceExhausted, "8.00EiB"},
		{"a GPU that is not there", 1, 1, status.InvalidArgument, "GPU:1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			taken, err := take(row.number, row.nbytes)
			require.Contains(t, requireMarked(t, row.code, err), row.want)
			require.Zero(t, taken)
			require.Zero(t, inUse(t))
		})
	}
}

func TestCallsBeforeTheDevicesAreListed(t *testing.T) {
	onThread(t)
	require.Contains(t, requireMarked(t, status.FailedPrecondition, must.Err(take(0, 1))), "no devices are listed yet")
	requireMarked(t, status.FailedPrecondition, cabi.GiveBack(1, 1))
	tried, err := cabi.TryGiveBack(1, 1)
	require.True(t, tried, "GiveBack would say the same")
	requireMarked(t, status.FailedPrecondition, err)
}

func TestAMachineThatShowsNoGPU(t *testing.T) {
	onMachine(t, "T4", config.Env{"CUDA_VISIBLE_DEVICES": ""})
	_, err := take(-1, 1)
	require.Contains(t, requireMarked(t, status.InvalidArgument, err), `CUDA_VISIBLE_DEVICES="" shows none`)
}

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
