//go:build cgo

package pybind_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/pybind"
	"gpuconf/pybind/wire"
	"gpuconf/tests_go/must"
)

// Python handles signals between two waits, so no wait may be long, whatever its timeout.
func TestWaitForFreeIsShort(t *testing.T) {
	onMachine(t, "T4:1GiB")
	initialize(t)
	seen := must.OK(pybind.Frees(0))(t)
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
		require.Equal(t, seen, must.OK(pybind.WaitForFree(-1, seen, row.milliseconds))(t))
		require.GreaterOrEqual(t, time.Since(begin), row.atLeast)
	}
	allocate(t, 0, 1).free(t)
	require.Equal(t, seen+1, must.OK(pybind.WaitForFree(0, seen, 100))(t))
}

func TestNoticesAreHandedOutOnce(t *testing.T) {
	onMachine(t, "2xT4")
	drain := func() (notices [][2]string) {
		require.NoError(t, json.Unmarshal([]byte(must.OK(pybind.DrainNotices())(t)), &notices))
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
	must.OK(pybind.SetSetting("intra_op_parallelism_threads", "3"))(t)
	must.OK(pybind.SetSetting("device_policy", `{"name": "warn", "repr": "'warn'"}`))(t)
	must.OK(pybind.Enumerate("{}"))(t)
	require.Equal(t, "3", must.OK(pybind.Setting("intra_op_parallelism_threads"))(t))

	must.OK(pybind.Reset())(t)
	policy := must.OK(pybind.Setting("device_policy"))(t)
	require.Equal(t, `"silent"`, policy, "a reset forgets what was set")

	must.OK(pybind.SetSetting("device_policy", `{"name": "warn", "repr": "'warn'"}`))(t)
	must.OK(pybind.Reset())(t)
	policy = must.OK(pybind.Setting("device_policy"))(t)
	require.Equal(t, `"silent"`, policy, "also before the devices are listed")
}

// Without a driver there is nothing to see, which is no error.
func TestSurveyWithoutADriver(t *testing.T) {
	text, err := pybind.Cards(`{}`)
	require.NoError(t, err)
	var found wire.Survey
	require.NoError(t, wire.Decode(text, &found))
	if found.WhyNone == nil {
		t.Skip("this machine has an NVIDIA driver")
	}
	require.Contains(t, *found.WhyNone, "NVML")
	require.Empty(t, found.Cards)
}
