package devmgr_test

import (
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
	require.NoError(t, m.Initialize(nil, ""))
	require.Equal(t, []string{"/device:CPU:0"}, logicalNames(t, m))
	_, err = m.Allocate(0, 1)
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
