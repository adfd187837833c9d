package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/must"
)

// TestImport tests the rules for a ConfigProto that a program starts with; P3 has two GPUs. Numbers are conformance
// cases.
func TestImport(t *testing.T) {
	cpus := func(n int64) config.Options { return config.Options{DeviceCount: map[string]int64{"CPU": n}} }
	gpus := func(n int64, list string) config.Options {
		return config.Options{DeviceCount: map[string]int64{"GPU": n}, VisibleDeviceList: list}
	}
	list := func(text string) config.Options { return config.Options{VisibleDeviceList: text} }
	for _, row := range []struct {
		name, machine string
		options       config.Options
		visible       []config.PhysicalDevice // afterwards
		refused       string
	}{
		{"149: two CPUs", "P1", cpus(2), []config.PhysicalDevice{device("CPU", 0)}, ""},
		{"150: no CPU", "P2", cpus(0), []config.PhysicalDevice{device("GPU", 0)}, ""},
		{"fewer than no CPU", "P1", cpus(-3), []config.PhysicalDevice{device("CPU", 0)}, ""},
		{"countless CPUs", "P1", cpus(1 << 31), nil, "device_count['CPU'] is 2147483648"},
		{"151: no list", "P3", list(""), []config.PhysicalDevice{device("CPU", 0), device("GPU", 0), device("GPU", 1)},
			""},
		{"152: beyond", "P3", list("2"), nil, "Invalid visible device index: 2"},
		{"beyond, backwards", "P3", list("-3"), nil, "Invalid visible device index: -3"},
		{"no number", "P3", list("0,x"), nil, "invalid literal for int() with base 10: 'x'"},
		{"153: in another order", "P3", list("1,0"), []config.PhysicalDevice{device("CPU", 0), device("GPU", 1),
			device("GPU", 0)}, ""},
		{"154: backwards", "P3", list("-1"), []config.PhysicalDevice{device("CPU", 0), device("GPU", 1)}, ""},
		{"blanks", "P3", list(" 1"), []config.PhysicalDevice{device("CPU", 0), device("GPU", 1)}, ""},
		{"155: one GPU", "P3", gpus(1, ""), []config.PhysicalDevice{device("CPU", 0), device("GPU", 0)}, ""},
		{"155: no GPU", "P3", gpus(0, ""), []config.PhysicalDevice{device("CPU", 0)}, ""},
		{"the first of a list", "P3", gpus(1, "1,0"), []config.PhysicalDevice{device("CPU", 0), device("GPU", 1)}, ""},
		{"156: a list without GPUs", "P1", list("0"), []config.PhysicalDevice{device("CPU", 0)}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSession(row.machine).state
			before := s.Clone()
			err := s.Import(row.options)
			require.NoError(t, s.Check())
			if row.refused != "" {
				code := status.Value
				if row.name == "countless CPUs" { // a check that TensorFlow does not make
					code = status.InvalidArgument
				}
				require.Equal(t, code, status.CodeOf(err))
				require.ErrorContains(t, err, row.refused)
				require.Equal(t, before, s, "a refused import changes nothing")
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.visible, s.Visible())
		})
	}
}

func TestImportedCPUsAreLogicalDevices(t *testing.T) {
	s := newSession("P3")
	require.NoError(t, s.state.Import(config.Options{DeviceCount: map[string]int64{"CPU": 2}}))
	layout := must.OK(s.state.Layout(s.facts))(t)
	require.Equal(t, []string{"/device:CPU:0", "/device:CPU:1", "/device:GPU:0", "/device:GPU:1"}, namesIn(layout))

	s = newSession("P3")
	require.NoError(t, s.state.Import(config.Options{DeviceCount: map[string]int64{"CPU": 0}}))
	require.ErrorContains(t, must.Err(s.state.Layout(s.facts)), "No CPU devices are available in this process")
}

// Case 157: an imported value remains in force. Case 158: a fraction is kept, and contradicts logical devices.
func TestImportedOptionsCountInThePlan(t *testing.T) {
	s := newSession("P2")
	require.NoError(t, s.state.Import(config.Options{AllowGrowth: true, Sizing: config.Sizing{Fraction: 0.4}}))
	gpu := config.Arg{Device: device("GPU", 0)}
	require.NoError(t, s.state.SetGrowth(gpu, 0, ""))
	layout := must.OK(s.state.Layout(s.facts))(t)
	require.True(t, layout.Devices[1].Growth)
	require.InDelta(t, 0.4, layout.Devices[1].Sizing.Fraction, 0)
	_, set := must.OK2(s.state.Growth(gpu))(t)
	require.True(t, set, "the getter returns what was set")

	s = newSession("P2")
	require.NoError(t, s.state.Import(config.Options{Sizing: config.Sizing{Fraction: 0.4}}))
	limit := 100.0
	require.NoError(
		t, s.state.SetLogicalConfigs(
			gpu, config.LogicalConfigs{Items: []config.LogicalConfig{{MemoryLimitMiB: &limit}}}))
	_, err := s.state.Layout(s.facts)
	require.Equal(t, status.InvalidArgument, status.CodeOf(err), "TensorFlow's native code checks it")
	require.ErrorContains(t, err, "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.")
}

func TestImportedGrowthHoldsForLogicalDevicesToo(t *testing.T) {
	s := newSession("P2")
	require.NoError(t, s.state.Import(config.Options{AllowGrowth: true}))
	limit := 100.0
	require.NoError(t, s.state.SetLogicalConfigs(config.Arg{Device: device("GPU", 0)}, config.LogicalConfigs{
		Items: []config.LogicalConfig{{MemoryLimitMiB: &limit}},
	}))
	layout := must.OK(s.state.Layout(s.facts))(t)
	require.True(t, layout.Devices[1].Growth)
}

func TestImportComesBeforeInitialization(t *testing.T) {
	s := newSession("P2")
	s.state.Initialize("main.py:3 (matmul)")
	err := s.state.Import(config.Options{AllowGrowth: true})
	must.Fail(t, status.State, err)
	require.ErrorContains(t, err, "must be called at program startup. The runtime was initialized by main.py:3 "+
		"(matmul)")
}

// A caller's lists are copied.
func TestImportSharesNothingWithItsCaller(t *testing.T) {
	s := newSession("P2")
	limits := []float64{1}
	require.NoError(
		t, s.state.Import(config.Options{VirtualDevices: []config.VirtualDevices{{MemoryLimitMiB: limits}}}))
	limits[0] = 2
	layout := must.OK(s.state.Layout(s.facts))(t)
	require.Equal(t, []string{"/device:CPU:0", "/device:GPU:0"}, namesIn(layout))
	require.True(t, layout.Devices[1].Limited)
	require.EqualValues(t, 1<<20, layout.Devices[1].LimitBytes)
}

func namesIn(layout config.Layout) (names []string) {
	for _, d := range layout.Devices {
		names = append(names, d.Logical.Name)
	}
	return names
}

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
		"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "-5", "TF_MIN_GPU_MULTIPROCESSOR_COUNT": "few",
		"TF_ENABLED_DEVICE_TYPES": "GPU"}.Malformed()
	require.Len(t, notices, 5)
	for name, want := range map[string]string{
		"TF_FORCE_GPU_ALLOW_GROWTH": "The TF_FORCE_GPU_ALLOW_GROWTH environment variable is set but could not be " +
			"parsed: \"yes\". Valid values are \"true\" or \"false\". Using original config value of 0.",
		"TF_ENABLE_GPU_GARBAGE_COLLECTION": "The TF_ENABLE_GPU_GARBAGE_COLLECTION environment variable is set but " +
			"could not be parsed: \"1\". Valid values are \"true\" or \"false\". Using the default value \"true\".",
		"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "The requested reserved device memory -5 is invalid. " +
			"The request will be ignored.",
		"TF_MIN_GPU_MULTIPROCESSOR_COUNT": "Invalid minimum GPU multiprocessor count: [few]. " +
			"Using the default value: 8",
		"TF_ENABLED_DEVICE_TYPES": "CPU Factory not registered. Did you link in threadpool_device? " +
			"TF_ENABLED_DEVICE_TYPES is \"GPU\", which excludes the CPU",
	} {
		require.Len(t, notices[name], 1, name)
		require.Equal(t, want, notices[name][0].Text, name)
	}
	for name, list := range (config.Env{"TF_FORCE_GPU_ALLOW_GROWTH": "true",
		"TF_ENABLE_GPU_GARBAGE_COLLECTION": "false", "TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "5",
		"TF_MIN_GPU_MULTIPROCESSOR_COUNT": "4", "TF_ENABLED_DEVICE_TYPES": "CPU"}).Malformed() {
		require.Empty(t, list, name)
	}
}

// The text for a program at its limit names what to raise: the variable, or the lease that set it.
func TestHowACeilingIsRaised(t *testing.T) {
	for want, env := range map[string]config.Env{
		"raise GPUCONF_LIMIT, which sets this limit (gpuconf config --explain shows from where)": {
			"GPUCONF_LIMIT": "4GiB"},
		"raise --memory of gpuconf run, which sets this limit": {"GPUCONF_LIMIT": "4294967296",
			"GPUCONF_LIMIT_FROM": "4294967296 --memory of gpuconf run"},
		"raise --memory of gpuconf run, which sets this limit; 2 of 2 ranks share this GPU": {
			"GPUCONF_LIMIT": "4294967296", "GPUCONF_LIMIT_FROM": "4294967296 --memory of gpuconf run",
			"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"},
	} {
		require.Equal(t, want, must.OK(env.Ceiling(0, 1))(t).Raise())
	}
	lowered := config.Env{"GPUCONF_LIMIT": "2GiB", "GPUCONF_LIMIT_FROM": "4294967296 --memory of gpuconf run"}
	require.Contains(t, must.OK(lowered.Ceiling(0, 1))(t).Raise(), "raise GPUCONF_LIMIT, which", "not the lease")
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
