package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/sim"
	"gpuconf/tests_go/drivertest"
	"gpuconf/tests_go/faults"
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
		"no managed memory":                        {"2xT4", sim.Options{NoManaged: true}},
		"managed memory that has to fit":           {"2xT4", sim.Options{NoOversubscription: true}},
		"managed memory and nothing virtual":       {"T4:64MiB", sim.Options{NoVMM: true, UsedBytes: 8 << 20}},
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
		return faults.NewInjector(m), nil
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
	return capturer{m}, nil
}

// capturer captures streams of a machine.
type capturer struct{ *sim.Machine }

var _ drivertest.Capturer = capturer{}

func (c capturer) BeginCapture(ordinal int, stream gpu.Stream) error {
	return c.StreamBeginCapture(ordinal, stream)
}

func (c capturer) EndCapture(ordinal int, stream gpu.Stream) (uint64, error) {
	graph, err := c.StreamEndCapture(ordinal, stream)
	return uint64(graph), err
}

func (c capturer) GraphPieces(ordinal int, graph uint64) int {
	pieces, err := c.GraphNodes(ordinal, sim.Graph(graph))
	must(err)
	return pieces
}

func (c capturer) Instantiate(ordinal int, graph uint64) (uint64, error) {
	exec, err := c.GraphInstantiate(ordinal, sim.Graph(graph))
	return uint64(exec), err
}

func (c capturer) Launch(ordinal int, exec uint64, stream gpu.Stream) error {
	return c.GraphLaunch(ordinal, sim.GraphExec(exec), stream)
}

func (c capturer) DestroyGraph(ordinal int, graph uint64) error {
	return c.GraphDestroy(ordinal, sim.Graph(graph))
}

func (c capturer) DestroyExec(ordinal int, exec uint64) error {
	return c.GraphExecDestroy(ordinal, sim.GraphExec(exec))
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
