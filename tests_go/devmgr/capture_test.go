package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/sim"
	"gpuconf/gocore/status"
	"gpuconf/tests_go/faults"
	"gpuconf/tests_go/handover"
)

// capturer captures streams of a simulated machine.
type capturer struct{ *sim.Machine }

func (c capturer) BeginCapture(ordinal int, stream gpu.Stream) error {
	return c.StreamBeginCapture(ordinal, stream)
}

func (c capturer) EndCapture(ordinal int, stream gpu.Stream) (uint64, error) {
	graph, err := c.StreamEndCapture(ordinal, stream)
	return uint64(graph), err
}

func (c capturer) GraphPieces(ordinal int, graph uint64) int {
	pieces, _ := c.GraphNodes(ordinal, sim.Graph(graph))
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

func TestCaptures(t *testing.T) {
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			handover.Captures(t, func(t *testing.T) handover.Capturing {
				d := openDriver(t, "T4", opts)
				t.Cleanup(func() {
					d.requireNothingLeft(t)
					require.NoError(t, d.machine.Close())
				})
				return capturer{d.machine}
			})
		})
	}
}

// Where the driver can't tell when a graph ends, or anything else goes wrong, a captured stream gets no memory, and the books stay as they are.
func TestCapturesThatCannotBeFollowed(t *testing.T) {
	m, d := initialized(t, "T4", sim.Options{}, nil, []float64{8})
	stream := newStream(t, d)
	require.NoError(t, d.machine.StreamBeginCapture(0, stream))
	before := stats(t, m, "GPU:0")
	for _, row := range []struct {
		call   string
		result gpu.Result
		code   status.Code
		text   string
	}{
		{"StreamGetCaptureLife", gpu.ErrorNotSupported, status.Unimplemented, "when the graph ends, the driver can't tell"},
		{"StreamGetCaptureLife", gpu.ErrorUnknown, status.Unknown, "when the graph ends, the driver can't tell"},
		{"StreamGetCaptureInfo", gpu.ErrorUnknown, status.Unknown, "does not tell whether stream 0x100 is captured"},
	} {
		d.SetFaults(func(c faults.Call) error {
			if c.Op == row.call {
				return row.result
			}
			return nil
		})
		_, err := m.AllocateOn(0, -1, stream, mib)
		requireCode(t, row.code, err)
		require.ErrorContains(t, err, row.text)
		require.Equal(t, before, stats(t, m, "GPU:0"))
	}
	d.SetFaults()
	block, err := m.AllocateOn(0, -1, stream, mib)
	require.NoError(t, err)
	require.NoError(t, m.Free(block.Addr))
	none, err := m.AllocateOn(0, -1, stream, 0)
	require.NoError(t, err)
	require.Zero(t, none)
	graph, err := d.machine.StreamEndCapture(0, stream)
	require.NoError(t, err)
	require.NoError(t, d.machine.GraphDestroy(0, graph))
	require.Zero(t, stats(t, m, "GPU:0").CapturedBytes)
}
