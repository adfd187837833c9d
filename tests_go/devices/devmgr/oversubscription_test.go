package devmgr_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// A fraction above 1 used to raise only the limit: the pool requested device memory, and an allocation beyond the card
// failed.

var (
	oneAndAHalf = config.Options{Sizing: config.Sizing{Fraction: 1.5}}
	unified     = config.Options{UnifiedMemory: true}
)

func oversubscribed(t *testing.T, m *devmgr.Manager, device string) uint64 {
	s := must.OK(m.MemoryStats(device))(t)
	picture := must.OK(m.MemoryMap(device))(t)
	require.Equal(t, s.OversubscribedBytes, picture.OversubscribedBytes)
	return s.OversubscribedBytes
}

// imported returns a Manager that a program started with options; growth is in them.
func imported(t *testing.T, d *driver, o config.Options) *devmgr.Manager {
	m := enumerated(t, d, nil)
	require.NoError(t, m.Configure(func(s *config.State) error { return s.Import(o) }))
	return m
}

func TestAFractionAboveOneExceedsTheCard(t *testing.T) {
	d := newDriver(t, "2xT4:64MiB", simulated.Options{})
	m := enumerated(t, d, nil)
	join(t, m, oneAndAHalf, "")
	for number, device := range []string{"GPU:0", "GPU:1"} {
		require.Equal(t, 96*mib, stats(t, m, device).BytesLimit, "one and a half of each card")
		var blocks []bfc.Block
		for i := range byte(6) {
			block := allocate(t, m, number, 16*mib)
			blocks = append(blocks, block)
			require.NoError(t, m.CopyFromHost(block.Addr, block.ID, 0, bytes.Repeat([]byte{i}, int(16*mib))))
			require.Equal(t, []uint64{0, 0, 0, 0, 16 * mib, 32 * mib}[i], oversubscribed(t, m, device))
		}
		require.NoError(t, m.Check())
		must.Fail(t, status.ResourceExhausted, must.Err(m.Allocate(number, 1, 0)))
		got := make([]byte, 16*mib)
		for i, block := range blocks {
			require.NoError(t, m.CopyToHost(block.Addr, block.ID, 0, got))
			require.True(t, bytes.Equal(bytes.Repeat([]byte{byte(i)}, int(16*mib)), got), "block %d", i)
			require.NoError(t, m.Free(block.Addr))
		}
		require.Zero(t, oversubscribed(t, m, device))
	}
	require.Equal(t, 2, d.CallsOf()["MemAllocManaged"], "the whole limit in one region")
	require.Zero(t, d.CallsOf()["MemAlloc"])
}

// Managed memory is not mapped in granules: a growing pool grows in regions, as TensorFlow's do.
func TestUnifiedMemoryGrowsInRegions(t *testing.T) {
	d := newDriver(t, "T4:64MiB", simulated.Options{})
	m := enumerated(t, d, nil)
	join(t, m, config.Options{AllowGrowth: true, Sizing: oneAndAHalf.Sizing}, "")
	var blocks []bfc.Block
	for range 24 {
		blocks = append(blocks, allocate(t, m, 0, 2*mib))
	}
	require.Greater(t, d.CallsOf()["MemAllocManaged"], 2)
	require.Zero(t, d.CallsOf()["MemCreate"]+d.CallsOf()["MemAddressReserve"]+d.CallsOf()["MemAlloc"])
	require.Less(t, stats(t, m, "GPU:0").BytesReserved, 96*mib, "not the whole limit")
	large := allocate(t, m, 0, 34*mib)
	require.Equal(t, 18*mib, oversubscribed(t, m, "GPU:0"))
	for _, block := range append(blocks, large) {
		require.NoError(t, m.Free(block.Addr))
	}
}

// Logical GPUs with explicit limits, which cannot be combined with a fraction, get unified memory if the options
// request it.
func TestLogicalGPUsOfUnifiedMemoryShareACard(t *testing.T) {
	d := newDriver(t, "2xT4:64MiB", simulated.Options{})
	m := imported(t, d, unified)
	require.NoError(t, splitGPU(m, 0, 40, 40))
	must.OK(m.Initialize(nil, "", nil))(t)
	require.Contains(t, texts(m), "info: the memory_limits of 2 logical GPUs add up to 80.00MiB, and Tesla T4 has "+
		"only 64.00MiB: unified memory that does not fit on the GPU is kept in host memory")
	first := allocate(t, m, 0, 40*mib)
	require.Zero(t, oversubscribed(t, m, "GPU:0"))
	second := allocate(t, m, 1, 30*mib)
	require.Equal(t, 6*mib, oversubscribed(t, m, "GPU:0"), "the card's, whichever logical GPU")
	require.Equal(t, 6*mib, oversubscribed(t, m, "GPU:1"))
	third := allocate(t, m, 2, mib)
	require.Zero(t, oversubscribed(t, m, "GPU:2"), "another card")
	for _, block := range []bfc.Block{first, second, third} {
		require.NoError(t, m.Free(block.Addr))
	}
	require.Equal(t, 3, d.CallsOf()["MemAllocManaged"])
}

func TestPoolsWithoutUnifiedMemoryExceedNothing(t *testing.T) {
	m, d := initialized(t, "T4:64MiB", simulated.Options{}, nil, []float64{40, 40})
	block := allocate(t, m, 0, 40*mib)
	require.Zero(t, oversubscribed(t, m, "GPU:0"))
	require.Zero(t, d.CallsOf()["MemAllocManaged"])
	require.False(t, must.OK(m.IsUnified(0))(t))
	require.NoError(t, m.Free(block.Addr))
}

// The environment may set another limit; the memory is still unified.
func TestAnotherLimitIsOfUnifiedMemoryToo(t *testing.T) {
	d := newDriver(t, "T4:64MiB", simulated.Options{})
	m := enumerated(t, d, nil)
	must.OK2(m.Join(oneAndAHalf, config.Env{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "24"}, "", nil))(t)
	require.Equal(t, 40*mib, stats(t, m, "GPU:0").BytesLimit)
	require.NoError(t, m.Free(allocate(t, m, 0, 1).Addr))
	require.Equal(t, 1, d.CallsOf()["MemAllocManaged"])
}

func TestGPUsThatCannotOversubscribe(t *testing.T) {
	const prePascal = "Unified memory on GPUs with compute capability lower than 6.0 (pre-Pascal class GPUs) does " +
		"not support oversubscription."
	t.Run("before Pascal", func(t *testing.T) {
		m := enumerated(t, newDriver(t, "K40:64MiB", simulated.Options{}), nil)
		for _, options := range []config.Options{oneAndAHalf, unified} {
			_, _, err := m.Join(options, nil, "", nil)
			must.Fail(t, status.Internal, err)
			require.EqualError(t, err, prePascal)
			require.False(t, isInitialized(m))
		}
		view, _ := join(t, m, config.Options{UnifiedMemory: true, DeviceCount: map[string]int64{"GPU": 0}}, "")
		require.Zero(t, view.GPUs, "without GPUs there is nothing to report")
		require.False(t, isInitialized(m))
	})
	t.Run("before Pascal, with limits", func(t *testing.T) {
		d := newDriver(t, "K40:64MiB", simulated.Options{})
		m := imported(t, d, unified)
		require.NoError(t, splitGPU(m, 0, 40, 40))
		must.OK(m.Initialize(nil, "", nil))(t, "as in TensorFlow: nothing is sized, so nothing is checked")
		require.Contains(t, texts(m), "warning: the memory_limits of 2 logical GPUs add up to 80.00MiB, and Tesla "+
			"K40c has only 64.00MiB: the excess is not available")
		block := allocate(t, m, 0, 40*mib)
		must.Fail(t, status.ResourceExhausted, must.Err(m.Allocate(1, 30*mib, 0)),
			"the limit was not reached, but the GPU refused")
		require.NoError(t, m.Free(block.Addr))
	})
	t.Run("one GPU of two, hidden by its limits", func(t *testing.T) {
		m := imported(t, newDriver(t, "T4:64MiB,K40:64MiB", simulated.Options{}), unified)
		require.NoError(t, splitGPU(m, 0, 32))
		err := must.Err(m.Initialize(nil, "", nil))
		require.EqualError(t, err, prePascal, "the K40 has no separate limit")
		require.NoError(t, splitGPU(m, 1, 32))
		must.OK(m.Initialize(nil, "", nil))(t)
	})
	t.Run("no concurrent access", func(t *testing.T) {
		m := enumerated(t, newDriver(t, "T4:64MiB", simulated.Options{NoOversubscription: true}), nil)
		join(t, m, oneAndAHalf, "")
		require.Contains(t, texts(m), "warning: the limit of GPU:0 is 96.00MiB, and Tesla T4 has only 64.00MiB: the "+
			"excess is not available")
		block := allocate(t, m, 0, 60*mib)
		require.Zero(t, oversubscribed(t, m, "GPU:0"))
		must.Fail(t, status.ResourceExhausted, must.Err(m.Allocate(0, 20*mib, 0)),
			"the limit was not reached, but the GPU refused")
		require.NoError(t, m.Free(block.Addr))
	})
	t.Run("no managed memory", func(t *testing.T) {
		d := newDriver(t, "T4:64MiB", simulated.Options{NoManaged: true})
		m := enumerated(t, d, nil)
		_, _, err := m.Join(oneAndAHalf, nil, "", nil)
		must.Fail(t, status.Unimplemented, err)
		require.EqualError(t, err, "GPU:0 cannot use unified memory: Tesla T4 (GPU 0) does not support managed "+
			"memory. Do not set use_unified_memory, and keep per_process_gpu_memory_fraction at 1 or below")
		d.requireNothingLeft(t)
		join(t, m, config.Options{}, "")
		require.NoError(t, m.Free(allocate(t, m, 0, 1).Addr))
	})
}

func TestUnifiedMemoryIsAnotherConfiguration(t *testing.T) {
	m := enumerated(t, newDriver(t, "T4:64MiB", simulated.Options{}), nil)
	join(t, m, config.Options{}, "a.py:1")
	is := func() bool { return must.OK(m.IsUnified(0))(t) }
	require.False(t, is())
	block := allocate(t, m, 0, 1)
	must.Fail(t, status.FailedPrecondition, must.Err2(m.Join(unified, nil, "b.py:2", nil)))
	require.NoError(t, m.Free(block.Addr))
	join(t, m, unified, "b.py:2")
	require.True(t, is())
	join(t, m, unified, "c.py:3")
	join(t, m, grows, "d.py:4")
	require.False(t, is())
}

func TestOutOfMemoryOfUnifiedMemory(t *testing.T) {
	m := enumerated(t, newDriver(t, "T4:64MiB", simulated.Options{}), nil)
	join(t, m, oneAndAHalf, "")
	require.Contains(t, texts(m), "info: the limit of GPU:0 is 96.00MiB, and Tesla T4 has only 64.00MiB: "+
		"unified memory that does not fit on the GPU is kept in host memory")
	block := allocate(t, m, 0, 80*mib)
	_, err := m.Allocate(0, 32*mib, 0)
	require.ErrorContains(t, err, "out of memory, the limit is reached.\n  limit 96.00MiB (100663296 bytes), in use "+
		"80.00MiB (83886080 bytes)")
	require.ErrorContains(t, err, "\n  on Tesla T4, which has 64.00MiB (67108864 bytes) in total; the memory in use "+
		"exceeds that by 16.00MiB (16777216 bytes), which is in host memory. Free memory, ")
	require.NoError(t, m.Free(block.Addr))
}

// When the driver refuses unified memory, it is the host that has none left.
func TestTheHostMayHaveNoMore(t *testing.T) {
	d := newDriver(t, "T4:64MiB", simulated.Options{})
	m := enumerated(t, d, nil)
	join(t, m, oneAndAHalf, "")
	d.SetFaults(faults.AfterBytes(0, gpu.ErrorOutOfMemory))
	_, err := m.Allocate(0, mib, 0)
	must.Fail(t, status.ResourceExhausted, err,
		"the limit was not reached, but the GPU refused (CUDA_ERROR_OUT_OF_MEMORY (2))")
	require.ErrorContains(t, err, "Free memory, on this GPU or on the host, which holds what does not fit on the GPU.")
	var cause *bfc.OutOfMemory
	require.True(t, errors.As(err, &cause))
	require.Equal(t, bfc.DeviceFull, cause.Cause)
	d.SetFaults()
	require.NoError(t, m.Free(allocate(t, m, 0, mib).Addr))
}

// A fragmented pool of unified memory cannot move free pieces together, and must not recommend growth for that.
func TestFragmentedUnifiedMemory(t *testing.T) {
	m := imported(t, newDriver(t, "T4:64MiB", simulated.Options{}), unified)
	require.NoError(t, splitGPU(m, 0, 4))
	must.OK(m.Initialize(nil, "", nil))(t)
	a, b, c := allocate(t, m, 0, mib), allocate(t, m, 0, 2*mib), allocate(t, m, 0, mib)
	require.NoError(t, m.Free(a.Addr))
	require.NoError(t, m.Free(c.Addr))
	_, err := m.Allocate(0, 2*mib, 0)
	require.ErrorContains(t, err, "it is fragmented")
	require.NotContains(t, err.Error(), "memory growth")
	require.NoError(t, m.Free(b.Addr))
}
