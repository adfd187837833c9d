package devmgr_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

const (
	cpu0 = "/physical_device:CPU:0"
	gpu0 = "/physical_device:GPU:0"
	gpu1 = "/physical_device:GPU:1"
)

func TestEnumerate(t *testing.T) {
	for _, row := range []struct {
		name    string
		spec    string
		env     config.Env
		want    []string
		notices []string
	}{
		{"every GPU after the CPU", "2xT4", nil, []string{cpu0, gpu0, gpu1}, []string{}},
		{"only the CPU type allowed", "2xT4", config.Env{"TF_ENABLED_DEVICE_TYPES": "CPU"}, []string{cpu0},
			[]string{"info: Device factory 'GPU' disabled by TF_ENABLED_DEVICE_TYPES environment variable."}},
		{"both types allowed", "T4", config.Env{"TF_ENABLED_DEVICE_TYPES": "GPU,CPU"}, []string{cpu0, gpu0},
			[]string{}},
		{"types not limited", "T4", config.Env{"TF_ENABLED_DEVICE_TYPES": ""}, []string{cpu0, gpu0}, []string{}},
		{"a weak GPU first: the other keeps its ordinal in its name", "T4,H100-80GB",
			config.Env{"TF_MIN_GPU_MULTIPROCESSOR_COUNT": "41"}, []string{cpu0, gpu1},
			[]string{"info: Ignoring visible gpu device (device: 0, name: Tesla T4, pci bus id: 0000:17:00.0, " +
				"compute capability: 7.5) with core count: 40. The minimum required count is 41. You can adjust " +
				"this requirement with the env var TF_MIN_GPU_MULTIPROCESSOR_COUNT."}},
		{"every GPU too weak", "T4", config.Env{"TF_MIN_GPU_MULTIPROCESSOR_COUNT": "1000"}, []string{cpu0},
			[]string{"info: Ignoring visible gpu device (device: 0, name: Tesla T4, pci bus id: 0000:17:00.0, " +
				"compute capability: 7.5) with core count: 40. The minimum required count is 1000. You can adjust " +
				"this requirement with the env var TF_MIN_GPU_MULTIPROCESSOR_COUNT."}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := newDriver(t, row.spec, simulated.Options{})
			m := enumerated(t, d, row.env)
			require.Equal(t, row.want, physicalNames(t, m))
			require.Equal(t, len(row.notices) > 0, m.HasNotices())
			require.Equal(t, row.notices, texts(m))
			require.False(t, m.HasNotices())
			require.Empty(t, texts(m), "notices are handed out once")
			d.requireNothingLeft(t) // listing creates no context
		})
	}
}

func TestEnumerateWithoutDriver(t *testing.T) {
	m, err := devmgr.New(nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{cpu0}, physicalNames(t, m))
	require.False(t, m.HostVisible())
	must.OK(m.Initialize(nil, "", nil))(t)
	require.Equal(t, []string{"/device:CPU:0"}, logicalNames(t, m))
	_, err = m.Allocate(0, 1, 0)
	must.Fail(t, status.InvalidArgument, err,
		"this process has no logical GPU. Simulate one with gpuconf.simulate(\"H100-80GB\")")
	require.NoError(t, m.Close(false))
}

func TestEnumerateFailures(t *testing.T) {
	d := newDriver(t, "T4", simulated.Options{})
	_, err := devmgr.New(d, config.Env{"TF_ENABLED_DEVICE_TYPES": "GPU"})
	must.Fail(t, status.NotFound, err, "CPU Factory not registered")
	require.Equal(t, 1, d.closes, "the driver is the Manager's, also when New fails")

	d = newDriver(t, "T4", simulated.Options{})
	d.SetFaults(faults.OnOp("Devices", 0, gpu.ErrorSystemNotReady))
	d.closeErr = gpu.ErrorUnknown
	_, err = devmgr.New(d, nil)
	must.Fail(t, status.Unknown, err, "cannot list the GPUs")
	require.ErrorIs(t, err, gpu.ErrorSystemNotReady)
	require.ErrorIs(t, err, gpu.ErrorUnknown, "what the driver said to Close isn't lost")
	require.Equal(t, 1, d.closes)
}

func TestDetails(t *testing.T) {
	m := enumerated(t, newDriver(t, "T4,H100-80GB", simulated.Options{}),
		config.Env{"TF_MIN_GPU_MULTIPROCESSOR_COUNT": "41"})
	device, ok := m.Details(1)
	require.True(t, ok)
	require.Equal(t, "NVIDIA H100 80GB HBM3", device.Name, "positions count the physical list, not the machine's cards")
	require.Equal(t, 1, device.Ordinal)
	for _, index := range []int{0, 2, -1, 1 << 40, -1 << 63} {
		_, ok = m.Details(index)
		require.False(t, ok, "position %d", index)
	}
}

// A request for a GPU on a machine without one returns the reason, as far as it is known.
func TestWhyThereIsNoGPU(t *testing.T) {
	const simulate = "Simulate one with gpuconf.simulate(\"H100-80GB\") or GPUCONF_SIMULATE=H100-80GB"
	for _, row := range []struct {
		name string
		spec string // "" for no driver
		opts simulated.Options
		env  config.Env
		why  string // passed to the Manager
		hide bool
		want string
	}{
		{name: "unknown", want: "this process has no logical GPU. " + simulate},
		{
			name: "the machine says", why: "CUDA is not available (libcuda.so.1: none)",
			want: "this process has no logical GPU: CUDA is not available (libcuda.so.1: none). " + simulate,
		},
		{
			name: "hidden from the driver", spec: "T4", opts: simulated.Options{Visible: []int{}},
			why: "CUDA_VISIBLE_DEVICES=\"7\" shows none",
			want: "this process has no logical GPU: CUDA_VISIBLE_DEVICES=\"7\" shows none. " +
				"Unset CUDA_VISIBLE_DEVICES, or set it to numbers of simulated GPUs, such as 0",
		},
		{
			name: "of no enabled type", spec: "T4", env: config.Env{"TF_ENABLED_DEVICE_TYPES": "CPU"}, why: "not this",
			want: "this process has no logical GPU: TF_ENABLED_DEVICE_TYPES=\"CPU\" excludes GPUs. " + simulate,
		},
		{
			name: "too weak", spec: "2xT4", env: config.Env{"TF_MIN_GPU_MULTIPROCESSOR_COUNT": "1000"}, why: "not this",
			want: "this process has no logical GPU: 2 GPUs on this machine, but none meets the minimum requirements " +
				"(see the gpuconf logger). " + simulate,
		},
		{
			name: "made invisible", spec: "2xT4", hide: true, why: "not this",
			want: "this process has no logical GPU: 2 GPUs in the physical device list, but none is visible " +
				"(set_visible_devices). Call gpuconf.reset() and leave at least one visible",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			var m *devmgr.Manager
			if row.spec == "" {

				m = must.OK(devmgr.New(nil, row.env))(t)
			} else {
				m = enumerated(t, newDriver(t, row.spec, row.opts), row.env)
			}
			m.ExplainNoGPU(row.why)
			if row.hide {
				gpus := "GPU"
				require.NoError(t, m.Configure(func(s *config.State) error { return s.SetVisible(nil, &gpus) }))
			}
			must.OK(m.Initialize(row.env, "", nil))(t)
			_, err := m.Allocate(0, 1, 0)
			must.Fail(t, status.InvalidArgument, err)
			require.EqualError(t, err, "unknown device GPU:0: "+row.want)
			must.Fail(t, status.InvalidArgument, must.Err2(m.MemoryInfo("GPU:0")), ": "+row.want)
			require.NotContains(t, must.Err2(m.MemoryInfo("CPU:7")).Error(), "no logical GPU")
		})
	}
}

// TensorFlow allows limits that cannot all be reached, and gives no warning.
func TestLimitsBeyondTheCardAreNoticed(t *testing.T) {
	for _, row := range []struct {
		name   string
		limits [][]float64
		want   []string
	}{
		{"none requested", [][]float64{{}, {}}, nil},
		{"just enough", [][]float64{{60, 40}, {100}}, nil},
		{"a byte too many, as a MiB", [][]float64{{60, 41}, {100}}, []string{
			"warning: the memory_limits of 2 logical GPUs add up to 101.00MiB, and Tesla T4 has only 100.00MiB: the " +
				"excess is not available",
		}},
		{"one alone, and the other card", [][]float64{{200}, {1 << 42, 1 << 42, 1 << 42}}, []string{
			"mistake: the memory_limit of GPU:0 is 200.00MiB, and Tesla T4 has only 100.00MiB: the excess is not " +
				"available",
			"mistake: the memory_limits of 3 logical GPUs add up to 12.00EiB, and Tesla T4 has only 100.00MiB: the " +
				"excess is not available. memory_limit is a number of MiB",
		}},
		{"bytes", [][]float64{{10, 50 << 20}, {}}, []string{
			"mistake: the memory_limits of 2 logical GPUs add up to 50.00TiB, and Tesla T4 has only 100.00MiB: the " +
				"excess is not available. memory_limit is a number of MiB, and 52428800 looks like bytes: write 50",
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, _ := initialized(t, "2xT4:100MiB", simulated.Options{}, nil, row.limits...)
			var warnings []string
			for _, said := range texts(m) {
				if !strings.HasPrefix(said, "info") {
					warnings = append(warnings, said)
				}
			}
			require.Equal(t, row.want, warnings)
		})
	}
}
