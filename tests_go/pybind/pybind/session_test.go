//go:build cgo

package pybind_test

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/pybind"
	"gpuconf/pybind/wire"
)

func TestSessionThroughTheBorder(t *testing.T) {
	onMachine(t, "H100-80GB:80GiB,T4:16GiB")
	devices, err := pybind.Enumerate("{}")
	require.NoError(t, err)
	require.JSONEq(t, `[[["/physical_device:CPU:0", "CPU"], ["/physical_device:GPU:0", "GPU"],
		["/physical_device:GPU:1", "GPU"]], "H100-80GB:80GiB,T4:16GiB"]`, devices)
	h100, t4 := "GPU-2da03b5e-97a7-d03f-0f1c-5b101e4cc1bf", "GPU-03b6d973-39bb-712e-011e-82fb0865b4d6"
	for position, want := range []*wire.DeviceDetails{nil,
		{Name: "NVIDIA H100 80GB HBM3", Major: 9, TotalBytes: 80 << 30, UUID: h100},
		{Name: "Tesla T4", Major: 7, Minor: 5, TotalBytes: 16 << 30, UUID: t4}, nil} {
		text, err := pybind.DeviceDetails(int64(position))
		require.NoError(t, err)
		var details *wire.DeviceDetails
		require.NoError(t, wire.Decode(text, &details))
		require.Equal(t, want, details)
	}
	split(t, 1, 100, 200)
	configured, err := pybind.LogicalConfigured(2, "")
	require.NoError(t, err)
	require.True(t, configured)
	configured, err = pybind.LogicalConfigured(1, "")
	require.NoError(t, err)
	require.False(t, configured)
	done, err := pybind.SetVisibleDevices(`[[2, ""]]`, "GPU", true)
	require.NoError(t, err)
	require.True(t, done)
	positions, err := pybind.VisibleDevices()
	require.NoError(t, err)
	require.Equal(t, "[0,2]", positions)

	built, err := pybind.Initialize("{}", "main.py:1 (test)")
	require.NoError(t, err)
	require.JSONEq(t, `[[
		["/device:CPU:0", "CPU", "/job:localhost/replica:0/task:0/device:CPU:0", -1],
		["/device:GPU:0", "GPU", "/job:localhost/replica:0/task:0/device:GPU:0", 1],
		["/device:GPU:1", "GPU", "/job:localhost/replica:0/task:0/device:GPU:1", 1]], true, -1]`, built)
	again, err := pybind.Initialize("{}", "other.py:2 (later)")
	require.NoError(t, err)
	require.JSONEq(t, built, again)

	limit, err := pybind.LimitBytes(1)
	require.NoError(t, err)
	require.Equal(t, 200*mib, limit)
	number, err := pybind.ResolveGPU("GPU:1")
	require.NoError(t, err)
	b := allocate(t, number, 1000)
	require.EqualValues(t, 1, b.gpu)
	require.True(t, b.noticed, "the Created device notices are waiting")
	info, err := pybind.MemoryInfo("GPU:1")
	require.NoError(t, err)
	require.Equal(t, "1024 1024", info)
	b.free(t)
	_, err = pybind.ResetMemoryStats("GPU:1")
	require.NoError(t, err)
	text, err := pybind.MemoryStats("GPU:1")
	require.NoError(t, err)
	var stats devmgr.MemoryStats
	require.NoError(t, wire.Decode(text, &stats))
	require.Equal(t, devmgr.MemoryStats{Stats: bfc.Stats{BytesLimit: 200 << 20, BytesReserved: 200 << 20,
		PeakBytesReserved: 200 << 20, LargestFreeBlockBytes: 200 << 20}}, stats)
}

func TestGrowthAcrossTheBorder(t *testing.T) {
	onMachine(t, "T4")
	_, err := pybind.Enumerate("{}")
	require.NoError(t, err)
	growth, err := pybind.MemoryGrowth(1, "")
	require.NoError(t, err)
	require.EqualValues(t, -1<<63, growth, "None")
	for _, value := range []int64{1, 0, 7} {
		_, err = pybind.SetMemoryGrowth(1, "", value, "")
		require.NoError(t, err)
		growth, err = pybind.MemoryGrowth(1, "")
		require.NoError(t, err)
		require.Equal(t, value, growth)
	}
}

func TestSettingsAcrossTheBorder(t *testing.T) {
	onMachine(t, "")
	_, err := pybind.Enumerate("{}")
	require.NoError(t, err)
	for name, values := range map[string][]string{ // the default first
		"soft_device_placement":        {`true`, `false`, `true`},
		"log_device_placement":         {`false`, `true`},
		"synchronous_execution":        {`true`, `false`},
		"intra_op_parallelism_threads": {`0`, `4`},
		"inter_op_parallelism_threads": {`0`, `4`},
	} {
		got, err := pybind.Setting(name)
		require.NoError(t, err)
		require.JSONEq(t, values[0], got, name)
		for _, value := range values[1:] {
			_, err = pybind.SetSetting(name, value)
			require.NoError(t, err, name)
			got, err = pybind.Setting(name)
			require.NoError(t, err)
			require.JSONEq(t, value, got, name)
		}
	}
}

// hostAddress returns the address of a slice, which the pinner keeps from moving.
func hostAddress(pinner *runtime.Pinner, bytes []byte) int64 {
	pinner.Pin(&bytes[0])
	return int64(uintptr(unsafe.Pointer(&bytes[0])))
}

func TestCopiesAcrossTheBorder(t *testing.T) {
	onMachine(t, "T4:1GiB")
	initialize(t)
	b := allocate(t, 0, 1000)
	var pinner runtime.Pinner
	defer pinner.Unpin()
	sent, got := []byte("what was written"), make([]byte, 16)
	_, err := pybind.CopyFromHost(b.address, b.id, 984, hostAddress(&pinner, sent), 16)
	require.NoError(t, err)
	_, err = pybind.CopyToHost(b.address, b.id, 984, hostAddress(&pinner, got), 16)
	require.NoError(t, err)
	require.Equal(t, sent, got)
	_, err = pybind.CopyFromHost(b.address, b.id, 1000, 0, 0)
	require.NoError(t, err, "nothing, from nowhere")
	b.free(t)

	empty := allocate(t, 0, 0)
	require.Equal(t, block{0, 0, 0, true}, empty)
	empty.free(t)
}

func TestMeasurementAcrossTheBorder(t *testing.T) {
	onMachine(t, "T4:1GiB")
	initialize(t)
	held := allocate(t, 0, 100)
	started, err := pybind.StartPeak(-1)
	require.NoError(t, err)
	require.JSONEq(t, `[0, 1, [256, 256, 1, [["gpuconf", "", 256, 256, 1]]]]`, started)
	allocate(t, 0, 1000).free(t)
	measured, err := pybind.StopPeak(0, 1)
	require.NoError(t, err)
	require.JSONEq(t, `[256, 1280, 1, [["gpuconf", "", 256, 1280, 1]]]`, measured)
	held.free(t)
}

func TestMemoryMapAcrossTheBorder(t *testing.T) {
	onMachine(t, "T4")
	_, err := pybind.Enumerate("{}")
	require.NoError(t, err)
	split(t, 0, 1)
	_, err = pybind.Initialize("{}", "")
	require.NoError(t, err)
	b := allocate(t, 0, 1000)
	text, err := pybind.MemoryMap("GPU:0")
	require.NoError(t, err)
	var picture wire.MemoryMap
	require.NoError(t, wire.Decode(text, &picture))
	require.Equal(t, wire.MemoryMap{Device: "GPU:0", BytesLimit: uint64(mib), Regions: []wire.Region{{
		Address: uint64(b.address), Bytes: uint64(mib), Chunks: []wire.Chunk{
			{Address: uint64(b.address), Bytes: 1024, Requested: 1000, InUse: true, Library: "gpuconf"},
			{Address: uint64(b.address) + 1024, Bytes: 1047552},
		}}}}, picture, "to the last digit, though above 2^53")
	b.free(t)
}

// Python handles signals between two waits, so no wait may be long, whatever its timeout.
func TestWaitForFreeIsShort(t *testing.T) {
	onMachine(t, "T4:1GiB")
	initialize(t)
	seen, err := pybind.Frees(0)
	require.NoError(t, err)
	for _, row := range []struct {
		milliseconds int64
		atLeast      time.Duration
	}{
		{-1 << 63, 0},
		{0, 0},
		{20, 20 * time.Millisecond},
		{1<<63 - 1, 100 * time.Millisecond}, // would last longer than the test
	} {
		begin := time.Now()
		count, err := pybind.WaitForFree(-1, seen, row.milliseconds)
		require.NoError(t, err)
		require.Equal(t, seen, count)
		require.GreaterOrEqual(t, time.Since(begin), row.atLeast)
	}
	allocate(t, 0, 1).free(t)
	count, err := pybind.WaitForFree(0, seen, 100)
	require.NoError(t, err)
	require.Equal(t, seen+1, count)
}

func TestNoticesAreHandedOutOnce(t *testing.T) {
	onMachine(t, "2xT4")
	drain := func() (notices [][2]string) {
		text, err := pybind.DrainNotices()
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(text), &notices))
		return notices
	}
	require.Empty(t, drain())
	env := []string{"CUDA_VISIBLE_DEVICES", "1,nonsense", "TF_FORCE_GPU_ALLOW_GROWTH", "perhaps"}
	initialize(t, env...)
	notices := drain()
	require.Len(t, notices, 3)
	require.Equal(t, "warning", notices[0][0])
	require.Contains(t, notices[0][1], "CUDA_VISIBLE_DEVICES=\"1,nonsense\"")
	require.Equal(t, "error", notices[1][0])
	require.Contains(t, notices[1][1], "TF_FORCE_GPU_ALLOW_GROWTH")
	require.Equal(t, "info", notices[2][0])
	require.Contains(t, notices[2][1], "Created device")
	require.Contains(t, notices[2][1], "pci bus id: 0000:1a:00.0", "the second card is GPU:0")
	require.Empty(t, drain())
	b := allocate(t, 0, 1)
	require.False(t, b.noticed)
	b.free(t)
}

func TestSettingsBeforeTheDevicesAreListed(t *testing.T) {
	onMachine(t, "T4:1GiB")
	_, err := pybind.SetSetting("intra_op_parallelism_threads", "3")
	require.NoError(t, err)
	_, err = pybind.SetSetting("device_policy", `{"name": "warn", "repr": "'warn'"}`)
	require.NoError(t, err)
	_, err = pybind.Enumerate("{}")
	require.NoError(t, err)
	threads, err := pybind.Setting("intra_op_parallelism_threads")
	require.NoError(t, err)
	require.Equal(t, "3", threads)

	_, err = pybind.Reset()
	require.NoError(t, err)
	policy, err := pybind.Setting("device_policy")
	require.NoError(t, err)
	require.Equal(t, `"silent"`, policy, "a reset forgets what was set")

	_, err = pybind.SetSetting("device_policy", `{"name": "warn", "repr": "'warn'"}`)
	require.NoError(t, err)
	_, err = pybind.Reset()
	require.NoError(t, err)
	policy, err = pybind.Setting("device_policy")
	require.NoError(t, err)
	require.Equal(t, `"silent"`, policy, "also before the devices are listed")
}
