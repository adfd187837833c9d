package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/must"
)

func notice(level, text string) []config.Notice { return []config.Notice{{Level: level, Text: text}} }

// Cases 49 to 52, the part that concerns the decision.
func TestForcedGrowth(t *testing.T) {
	const name = "TF_FORCE_GPU_ALLOW_GROWTH"
	for _, row := range []struct {
		env        config.Env
		configured bool
		growth     bool
		notices    []config.Notice
	}{
		{nil, false, false, nil},
		{nil, true, true, nil},
		{config.Env{name: "true"}, true, true, nil},
		{config.Env{name: "false"}, false, false, nil},
		{config.Env{name: "true"}, false, true, notice("warning", "Overriding orig_value setting because the "+
			"TF_FORCE_GPU_ALLOW_GROWTH environment variable is set. Original config value was 0.")},
		{config.Env{name: "false"}, true, false, notice("warning", "Overriding orig_value setting because the "+
			"TF_FORCE_GPU_ALLOW_GROWTH environment variable is set. Original config value was 1.")},
		{config.Env{name: "TRUE"}, false, false,
			notice("error", "The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be parsed: "+
				"\"TRUE\". Valid values are \"true\" or \"false\". Using original config value of 0.")},
		{config.Env{name: "1"}, true, true,
			notice("error", "The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be parsed: "+
				"\"1\". Valid values are \"true\" or \"false\". Using original config value of 1.")},
		{config.Env{name: ""}, true, true,
			notice("error", "The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be parsed: \"\". "+
				"Valid values are \"true\" or \"false\". Using original config value of 1.")},
	} {
		growth, notices, err := row.env.AllowGrowth(row.configured)
		require.NoError(t, err)
		require.Equal(t, row.growth, growth, "%v", row)
		require.Equal(t, row.notices, notices, "%v", row)
	}
}

func TestGpuconfGrowthVariable(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "false": false} {
		env := config.Env{"GPUCONF_GROWTH": text, "TF_FORCE_GPU_ALLOW_GROWTH": "false"}
		growth, notices, err := env.AllowGrowth(!want)
		require.NoError(t, err)
		require.Empty(t, notices)
		require.Equal(t, want, growth)
	}
	_, _, err := config.Env{"GPUCONF_GROWTH": "maybe"}.AllowGrowth(true)
	require.EqualError(t, err, `GPUCONF_GROWTH must be true or false, but got "maybe"`)
}

func TestGarbageCollectionVariable(t *testing.T) {
	const name = "TF_ENABLE_GPU_GARBAGE_COLLECTION"
	for _, row := range []struct {
		env     config.Env
		on      bool
		notices []config.Notice
	}{
		{nil, true, nil},
		{config.Env{name: "true"}, true, nil},
		{config.Env{name: "false"}, false, nil},
		{config.Env{name: "0"}, true, notice("error", "The TF_ENABLE_GPU_GARBAGE_COLLECTION environment variable is "+
			"set but could "+
			"not be parsed: \"0\". Valid values are \"true\" or \"false\". Using the default value \"true\".")},
	} {
		on, notices := row.env.GarbageCollection()
		require.Equal(t, row.on, on, "%v", row)
		require.Equal(t, row.notices, notices, "%v", row)
	}
}

func TestEnabledDeviceTypes(t *testing.T) {
	both := []string{"CPU", "GPU"}
	disabled := func(deviceType string) config.Notice {
		return config.Notice{Level: "info",
			Text: "Device factory '" + deviceType + "' disabled by TF_ENABLED_DEVICE_TYPES environment variable."}
	}
	for _, row := range []struct {
		env     config.Env
		enabled []string
		notices []config.Notice
		noCPU   bool
	}{
		{nil, both, nil, false},
		{config.Env{"TF_ENABLED_DEVICE_TYPES": ""}, both, nil, false},
		{config.Env{"TF_ENABLED_DEVICE_TYPES": "GPU,CPU"}, both, nil, false},
		{config.Env{"TF_ENABLED_DEVICE_TYPES": "CPU"}, []string{"CPU"}, []config.Notice{disabled("GPU")}, false},
		{config.Env{"TF_ENABLED_DEVICE_TYPES": "CPU, GPU"}, []string{"CPU"}, []config.Notice{disabled("GPU")}, false},
		{config.Env{"TF_ENABLED_DEVICE_TYPES": "GPU"}, []string{"GPU"}, []config.Notice{disabled("CPU")}, true},
		{config.Env{"TF_ENABLED_DEVICE_TYPES": "cpu"}, nil, []config.Notice{disabled("CPU"), disabled("GPU")}, true},
	} {
		enabled, notices, err := row.env.EnabledTypes(both)
		require.Equal(t, row.enabled, enabled, "%v", row)
		require.Equal(t, row.notices, notices, "%v", row)
		if !row.noCPU {
			require.NoError(t, err)
			continue
		}
		must.Fail(t, status.NotFound, err)
		require.Contains(t, err.Error(), "CPU Factory not registered. Did you link in threadpool_device?")
	}
}

// Cases 163 and 164.
func TestUsableGPUs(t *testing.T) {
	const name = "TF_MIN_GPU_MULTIPROCESSOR_COUNT"
	gpu := func(ordinal, multiprocessors, major, minor int) config.Candidate {
		return config.Candidate{Ordinal: ordinal, Name: "NVIDIA X", PCIBusID: "0000:17:00.0",
			ComputeMajor: major, ComputeMinor: minor, Multiprocessors: multiprocessors}
	}
	weak, strong := gpu(0, 4, 9, 0), gpu(1, 80, 9, 0)
	ignored := func(count, minimum string) config.Notice {
		return config.Notice{Level: "info", Text: "Ignoring visible gpu device (device: 0, name: NVIDIA X, pci bus " +
			"id: 0000:17:00.0, compute capability: 9.0) with core count: " + count +
			". The minimum required count is " + minimum +
			". You can adjust this requirement with the env var TF_MIN_GPU_MULTIPROCESSOR_COUNT."}
	}
	invalid := func(text, used string) config.Notice {
		return config.Notice{Level: "error",
			Text: "Invalid minimum GPU multiprocessor count: [" + text + "]. Using the default value: " + used}
	}
	for _, row := range []struct {
		name    string
		gpus    []config.Candidate
		env     config.Env
		usable  []int
		notices []config.Notice
	}{
		{"none", nil, nil, nil, nil},
		{"a weak one beside a strong one", []config.Candidate{weak, strong}, nil, []int{1},
			[]config.Notice{ignored("4", "8")}},
		{"the variable lets it in", []config.Candidate{weak, strong}, config.Env{name: "4"}, []int{0, 1}, nil},
		{"alone it counts", []config.Candidate{weak}, nil, []int{0}, nil},
		{"the largest of weak ones counts", []config.Candidate{weak, gpu(1, 8, 9, 0)}, nil, []int{1},
			[]config.Notice{ignored("4", "8")}},
		{"8 are always enough", []config.Candidate{gpu(0, 8, 9, 0), strong}, nil, []int{0, 1}, nil},
		{"the variable keeps out", []config.Candidate{weak}, config.Env{name: " 5 "}, nil,
			[]config.Notice{ignored("4", "5")}},
		{"set to nothing", []config.Candidate{weak}, config.Env{name: ""}, []int{0}, nil},
		{"0 lets all in", []config.Candidate{gpu(0, 0, 9, 0), strong}, config.Env{name: "0"}, []int{0, 1}, nil},
		{"negative", []config.Candidate{weak}, config.Env{name: "-1"}, []int{0}, []config.Notice{invalid("-1", "4")}},
		{"beyond 32 bits", []config.Candidate{weak, strong}, config.Env{name: "2147483648"}, []int{1},
			[]config.Notice{invalid("2147483648", "8"), ignored("4", "8")}},
		{"just old enough", []config.Candidate{gpu(0, 80, 3, 5)}, nil, []int{0}, nil},
		{"too old", []config.Candidate{gpu(0, 80, 3, 0)}, nil, nil,
			[]config.Notice{{Level: "info", Text: "Ignoring visible gpu device (device: 0, name: NVIDIA X, pci bus " +
				"id: 0000:17:00.0, compute capability: 3.0) with Cuda compute capability 3.0. The minimum required " +
				"Cuda capability is 3.5."}}},
	} {
		usable, notices := config.UsableGPUs(row.gpus, row.env)
		require.Equal(t, row.usable, usable, row.name)
		require.Equal(t, row.notices, notices, row.name)
	}
}
