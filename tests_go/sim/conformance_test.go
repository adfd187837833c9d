package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/sim"
	"gpuconf/tests_go/drivertest"
)

func TestConformance(t *testing.T) {
	for _, text := range []string{"H100-80GB", "2xH100-80GB", "T4:64MiB", "K40,T4:256MiB,B200", "8xA100-40GB"} {
		t.Run(text, func(t *testing.T) {
			drivertest.TestDriver(t, func() (gpu.Driver, error) { return open(text, sim.Options{}) })
		})
	}
}

func TestConformanceOfRenumberedMachine(t *testing.T) {
	drivertest.TestDriver(t, func() (gpu.Driver, error) {
		return open("4xT4", sim.Options{Visible: []int{3, 1}, UsedBytes: 1 << 30})
	})
}

func TestConformanceOfLesserMachines(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		opts sim.Options
	}{
		"no virtual memory management":             {"2xT4", sim.Options{NoVMM: true}},
		"a card without virtual memory management": {"T4,K40", sim.Options{}},
		"no stream memory operations":              {"2xT4", sim.Options{NoStreamMemOps: true}},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.TestDriver(t, func() (gpu.Driver, error) { return open(row.text, row.opts) })
		})
	}
}

func TestConformanceThroughInjectorWithoutFaults(t *testing.T) {
	drivertest.TestDriver(t, func() (gpu.Driver, error) {
		m, err := open("2xT4", sim.Options{})
		if err != nil {
			return nil, err
		}
		return sim.NewInjector(m), nil
	})
}

// open avoids the typed nil that a *Machine would be inside a gpu.Driver.
func open(text string, opts sim.Options) (gpu.Driver, error) {
	spec, err := sim.ParseSpec(text)
	if err != nil {
		return nil, err
	}
	m, err := sim.New(spec, opts)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// newMachine opens a machine until the test ends.
func newMachine(t testing.TB, text string, opts sim.Options) *sim.Machine {
	t.Helper()
	spec, err := sim.ParseSpec(text)
	require.NoError(t, err)
	m, err := sim.New(spec, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}
