package devmgr_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/figures"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

func TestResolveGPU(t *testing.T) {
	m, _ := initialized(t, "2xT4", simulated.Options{}, nil)
	for text, want := range map[string]int{
		"GPU:0": 0, "GPU:1": 1, "/gpu:1": 1, "/device:GPU:0": 0, "/job:localhost/replica:0/task:0/device:GPU:1": 1,
	} {
		require.Equal(t, want, must.OK(m.ResolveGPU(text))(t, text), text)
	}
	for text, says := range map[string]string{
		"":            "Multiple devices match the provided string ''",
		"GPU":         "Failed parsing device name: 'GPU'",
		"/device:GPU": "Multiple devices match",
		"GPU:2": "No matching devices found for 'GPU:2' (available: CPU:0, GPU:0, GPU:1; device types are " +
			"case-sensitive)",
		"gpu:0":        "No matching devices found",
		"CPU:0":        "/device:CPU:0 has no memory pool: only GPUs have one",
		"a\x00b\xff\n": "Failed parsing device name",
	} {
		must.Fail(t, status.InvalidArgument, must.Err(m.ResolveGPU(text)), says, text)
	}
}

func TestMemoryInfo(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{10, 20})
	info := func(device string) [2]uint64 {
		current, peak := must.OK2(m.MemoryInfo(device))(t)
		return [2]uint64{current, peak}
	}
	require.Equal(t, [2]uint64{0, 0}, info("GPU:0"))
	small, large := allocate(t, m, 0, 1), allocate(t, m, 0, mib+1)
	require.Equal(t, [2]uint64{mib + 512, mib + 512}, info("GPU:0"))
	require.NoError(t, m.Free(large.Addr))
	require.Equal(t, [2]uint64{256, mib + 512}, info("GPU:0"))
	require.Equal(t, [2]uint64{0, 0}, info("GPU:1"), "the other logical GPU has its own accounting")
	require.NoError(t, m.ResetMemoryStats("GPU:0"))
	require.Equal(t, [2]uint64{256, 256}, info("GPU:0"))
	require.NoError(t, m.Free(small.Addr))
	require.Equal(t, [2]uint64{0, 256}, info("GPU:0"))

	_, _, err := m.MemoryInfo("CPU:0")
	must.Fail(t, status.InvalidArgument, err)
	require.EqualError(t, err, "Allocator stats not available for device 'CPU:0': only GPUs have a memory pool. "+
		"Pass a GPU, such as \"GPU:0\"")
	err = m.ResetMemoryStats("CPU:0")
	must.Fail(t, status.InvalidArgument, err)
	require.EqualError(t, err, "Cannot reset memory stats for device 'CPU:0'")
	must.Fail(t, status.InvalidArgument, m.ResetMemoryStats("GPU:9"))
}

func TestMeasurementsOverlap(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{10, 10})
	held := allocate(t, m, 0, mib)
	outer, before := must.OK2(m.StartPeak(0))(t)
	require.Equal(t, mib, before.Bytes)
	require.NoError(t, m.Free(allocate(t, m, 0, 4*mib).Addr))
	inner, _ := must.OK2(m.StartPeak(0))(t)
	require.NoError(t, m.Free(allocate(t, m, 0, 2*mib).Addr))
	require.NoError(t, m.Free(allocate(t, m, 1, 9*mib).Addr)) // must have no effect here
	require.NoError(t, m.ResetMemoryStats("GPU:0"))           // nor this
	after := must.OK(m.StopPeak(0, inner))(t)
	require.Equal(t, []uint64{mib, 3 * mib}, []uint64{after.Bytes, after.PeakBytes})
	after = must.OK(m.StopPeak(0, outer))(t)
	require.Equal(t, []uint64{mib, 5 * mib}, []uint64{after.Bytes, after.PeakBytes})
	must.Fail(t, status.InvalidArgument, must.Err(m.StopPeak(0, inner)), "is not running")
	require.NoError(t, m.Free(held.Addr))
}

func TestMemoryMap(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{10, 20})
	a := allocate(t, m, 1, 1000)
	picture := must.OK(m.MemoryMap("/device:GPU:1"))(t)
	require.Equal(t, "GPU:1", picture.Name)
	require.Equal(t, 20*mib, picture.LimitBytes)
	require.Len(t, picture.Regions, 1)
	chunks := picture.Regions[0].Chunks
	require.Len(t, chunks, 2)
	require.Equal(t, a.Addr, chunks[0].Addr)
	require.EqualValues(t, 1000, chunks[0].Requested)
	require.Equal(t, 20*mib-1024, chunks[1].Bytes)
	for _, device := range []string{"CPU:0", "GPU:7", "nonsense"} {
		must.Fail(t, status.InvalidArgument, must.Err(m.MemoryMap(device)))
	}
}

// What PyTorch's statistics need: totals that only grow, failures, and a peak of reserved memory that ClearStats
// resets.
func TestMemoryTotals(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil, []float64{10, 20})
	require.NoError(t, m.Free(allocate(t, m, 0, 1000).Addr))
	kept := allocate(t, m, 0, 1)
	for range 3 {
		must.Fail(t, status.ResourceExhausted, must.Err(m.Allocate(0, 11*mib, 0)))
	}
	require.NoError(t, m.ResetMemoryStats("GPU:0"))
	totals := must.OK(m.MemoryTotals(0))(t)
	require.Equal(t, devmgr.MemoryTotals{Totals: bfc.Totals{Allocs: 2, AllocatedBytes: 1024 + 256, Regions: 1,
		RecentPeakBytesReserved: 10 * mib}, OOMs: 3}, totals)

	require.Equal(t, devmgr.MemoryTotals{}, must.OK(m.MemoryTotals(1))(t))
	require.Error(t, must.Err(m.MemoryTotals(2)))

	require.NoError(t, m.Free(kept.Addr))
	must.OK(m.Trim())(t)
	require.NoError(t, m.ResetMemoryStats("GPU:0"))
	totals = must.OK(m.MemoryTotals(0))(t)
	require.Zero(t, totals.RecentPeakBytesReserved, "a new peak begins at what is reserved now")
	require.Zero(t, totals.Regions)
}

var errFull = errors.New("no slot is free")

// full is where no figures can be published.
type full struct{}

func (full) SetPools([]figures.Place) ([]*figures.Pool, error) { return nil, errFull }

func TestFiguresThatCannotBePublishedAreAnError(t *testing.T) {
	m, _ := initialized(t, "T4", simulated.Options{}, nil)
	require.ErrorIs(t, m.Publish(full{}), errFull)
	require.NoError(t, m.Publish(nil))
}
