package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/must"
)

// The options of a session come before what the program configured.
func TestASessionsOptionsComeFirst(t *testing.T) {
	s := newSession("P3")
	for i := range s.facts {
		s.facts[i].ComputeMajor = 9
	}
	layout := must.OK(s.state.LayoutFor(s.facts, config.Options{Given: true,
		DeviceCount: map[string]int64{"CPU": 3, "GPU": 1}, AllowGrowth: true, UnifiedMemory: true,
		Sizing: config.Sizing{Fraction: 0.25, SystemMiB: 10, Shares: 2}}))(t)
	require.Equal(t, []int{3, 1}, []int{layout.CPUs, layout.GPUs})
	require.Equal(t, []string{"/device:CPU:0", "/device:GPU:0", "/device:GPU:1", "/device:GPU:2", "/device:GPU:3"},
		namesIn(layout), "two share each GPU")
	gpu := layout.Devices[1]
	require.True(t, gpu.Growth)
	require.True(t, gpu.Unified)
	require.Equal(t, config.Sizing{Fraction: 0.25, SystemMiB: 10, Shares: 2}, gpu.Sizing)

	layout = must.OK(s.state.Layout(s.facts))(t, "the program's own configuration is as it was")
	require.Equal(t, []string{"/device:CPU:0", "/device:GPU:0", "/device:GPU:1"}, namesIn(layout))
	require.False(t, layout.Devices[1].Growth)
}

func TestTheMostCPUsThatCanBeRequested(t *testing.T) {
	s := newSession("P1")
	layout, err := s.state.LayoutFor(s.facts, config.Options{Given: true, DeviceCount: map[string]int64{"CPU": 1024}})
	require.NoError(t, err)
	require.Equal(t, 1024, layout.CPUs)
	_, err = s.state.LayoutFor(s.facts, config.Options{Given: true, DeviceCount: map[string]int64{"CPU": 1025}})
	must.Fail(t, status.InvalidArgument, err, "device_count['CPU'] is 1025: the maximum is 1024")
}

// Limits of CPUs are not there to be read: they have none.
func TestLimitsOfAConfiguredDevice(t *testing.T) {
	s := newSession("P3")
	limit, second := 100.0, 50.5
	require.NoError(t, s.state.SetLogicalConfigs(config.Arg{Device: device("GPU", 0)}, config.LogicalConfigs{
		Items: []config.LogicalConfig{{MemoryLimitMiB: &limit}, {MemoryLimitMiB: &second}}}))
	require.NoError(t, s.state.SetLogicalConfigs(config.Arg{Device: device("CPU", 0)}, config.LogicalConfigs{
		Items: []config.LogicalConfig{{}, {}}}))
	require.Empty(t, s.state.Limits(0))
	require.Equal(t, []uint64{100 << 20, 50 << 20}, s.state.Limits(1))
	require.Empty(t, s.state.Limits(2), "this GPU is not configured")
	require.Empty(t, s.state.Limits(3), "there is no such device")
}

// What is ignored when the pools are built is said before.
func TestVariablesThatCannotBeParsed(t *testing.T) {
	notices := config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "yes", "TF_ENABLE_GPU_GARBAGE_COLLECTION": "1",
		"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "-5"}.Malformed()
	require.Len(t, notices, 3)
	for name, want := range map[string]string{
		"TF_FORCE_GPU_ALLOW_GROWTH": "The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be " +
			"parsed: \"yes\". Valid values are \"true\" or \"false\". Using original config value of 0.",
		"TF_ENABLE_GPU_GARBAGE_COLLECTION": "The TF_ENABLE_GPU_GARBAGE_COLLECTION environment variable is set but " +
			"could not be parsed: \"1\". Valid values are \"true\" or \"false\". Using the default value \"true\".",
		"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "The requested reserved device memory -5 is invalid. " +
			"The request will be ignored.",
	} {
		require.Len(t, notices[name], 1, name)
		require.Equal(t, want, notices[name][0].Text, name)
	}
	for name, list := range (config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true",
		"TF_ENABLE_GPU_GARBAGE_COLLECTION": "false", "TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "5"}).Malformed() {
		require.Empty(t, list, name)
	}
}

// The text for a program at its limit names what to raise: the variable, or the lease that set it.
func TestHowACeilingIsRaised(t *testing.T) {
	for want, env := range map[string]config.Env{
		"raise GPUCONF_LIMIT, which sets this limit (gpuconf config --explain shows from where)": {
			"GPUCONF_LIMIT": "4GiB"},
		"raise the lease's memory, which sets this limit (--memory of gpuconf run)": {"GPUCONF_LIMIT": "4GiB",
			"GPUCONF_LEASE": "1"},
		"raise the lease's memory, which sets this limit (--memory of gpuconf run); 2 of 2 ranks share this GPU": {
			"GPUCONF_LIMIT": "4GiB", "GPUCONF_LEASE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"},
	} {
		require.Equal(t, want, must.OK(env.Ceiling(0, 1))(t).Raise())
	}
	elsewhere, err := config.Env{"GPUCONF_LIMIT": "4GiB", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.Ceiling(0, 2)
	require.NoError(t, err)
	require.Equal(t, "use the GPU of this process: this GPU belongs to LOCAL_RANK 0, and this process is LOCAL_RANK 1",
		elsewhere.Raise())
}

// What a session does not set stays as it was imported.
func TestASessionWithoutOptionsKeepsWhatWasImported(t *testing.T) {
	s := newSession("P2")
	imported := config.Sizing{Fraction: 0.5, SystemMiB: 7, Shares: 1}
	require.NoError(t, s.state.Import(config.Options{Sizing: imported}))
	layout := must.OK(s.state.LayoutFor(s.facts, config.Options{Given: true}))(t)
	require.Equal(t, imported, layout.Devices[1].Sizing)
}
