package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/tf/config"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

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
			require.NoError(t, m.Initialize(row.env, ""))
			_, err := m.Allocate(0, 1)
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
			"warning: the memory_limit of GPU:0 is 200.00MiB, and Tesla T4 has only 100.00MiB: the excess is not " +
				"available",
			"warning: the memory_limits of 3 logical GPUs add up to 12.00EiB, and Tesla T4 has only 100.00MiB: the " +
				"excess is not available. memory_limit is a number of MiB",
		}},
		{"bytes", [][]float64{{10, 50 << 20}, {}}, []string{
			"warning: the memory_limits of 2 logical GPUs add up to 50.00TiB, and Tesla T4 has only 100.00MiB: the " +
				"excess is not available. memory_limit is a number of MiB, and 52428800 looks like bytes: write 50",
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, _ := initialized(t, "2xT4:100MiB", simulated.Options{}, nil, row.limits...)
			var warnings []string
			for _, said := range texts(m) {
				if said[:4] == "warn" {
					warnings = append(warnings, said)
				}
			}
			require.Equal(t, row.want, warnings)
		})
	}
}
