package simulated_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/devices/capturing"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/machine/drivertest"
	"gpuconf/tests_go/machine/simulated"
)

// machines are those that the conformance suite runs on.
var machines = []struct {
	name, text string
	opts       simulated.Options
}{
	{"one card", "H100-80GB", simulated.Options{}},
	{"two cards", "2xH100-80GB", simulated.Options{}},
	{"a card with little memory", "T4:64MiB", simulated.Options{}},
	{"cards of different ages", "K40,T4:256MiB,B200", simulated.Options{}},
	{"eight cards", "8xA100-40GB", simulated.Options{}},
	{"renumbered, and partly in use", "4xT4", simulated.Options{Visible: []int{3, 1}, UsedBytes: 1 << 30}},
	{"no virtual memory management", "2xT4", simulated.Options{NoVMM: true}},
	{"a card without virtual memory management", "T4,K40", simulated.Options{}},
	{"no stream memory operations", "2xT4", simulated.Options{NoStreamMemOps: true}},
	{"no managed memory", "2xT4", simulated.Options{NoManaged: true}},
	{"managed memory that has to fit", "2xT4", simulated.Options{NoOversubscription: true}},
	{"managed memory and nothing virtual", "T4:64MiB", simulated.Options{NoVMM: true, UsedBytes: 8 << 20}},
}

func TestConformance(t *testing.T) {
	for _, row := range machines {
		t.Run(row.name, func(t *testing.T) {
			drivertest.TestDriver(t, func() (gpu.Driver, error) { return open(row.text, row.opts) })
		})
	}
}

// The same machines behind a driver that captures streams: the facts about captures hold, and so do all others.
func TestConformanceWithCaptures(t *testing.T) {
	for _, row := range machines {
		t.Run(row.name, func(t *testing.T) {
			drivertest.TestDriver(t, func() (gpu.Driver, error) {
				m, err := open(row.text, row.opts)
				if err != nil {
					return nil, err
				}
				return capturing.New(m), nil
			})
		})
	}
}

func TestConformanceThroughInjectorWithoutFaults(t *testing.T) {
	drivertest.TestDriver(t, func() (gpu.Driver, error) {
		m, err := open("2xT4", simulated.Options{})
		if err != nil {
			return nil, err
		}
		return faults.NewInjector(m), nil
	})
}

// open avoids a gpu.Driver that contains a nil *Machine.
func open(text string, opts simulated.Options) (gpu.Driver, error) {
	spec, err := models.ParseSpec(text)
	if err != nil {
		return nil, err
	}
	m, err := simulated.New(spec, opts)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// newMachine opens a machine until the test ends.
func newMachine(t testing.TB, text string, opts simulated.Options) *simulated.Machine {
	t.Helper()
	spec := attempt.Get(models.ParseSpec(text))
	m := attempt.Get(simulated.New(spec, opts))
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}
