package devmgr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/devices/capturing"
	"gpuconf/tests_go/devices/faults"
	"gpuconf/tests_go/devices/handover"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

func TestCaptures(t *testing.T) {
	for name, opts := range bothTimelines {
		t.Run(name, func(t *testing.T) {
			handover.Captures(t, func(t *testing.T) handover.Capturing {
				d := openDriver(t, "T4", opts)
				t.Cleanup(func() {
					d.requireNothingLeft(t)
					require.NoError(t, d.machine.Close())
				})
				return capturing.New(d.machine)
			})
		})
	}
}

// newCapturing returns a driver whose streams can be captured.
func newCapturing(t *testing.T, opts simulated.Options) (*driver, *capturing.Driver) {
	t.Helper()
	d := newDriver(t, "T4", opts)
	captures := capturing.New(d.machine)
	d.Injector = faults.NewInjector(captures)
	return d, captures
}

// If the driver cannot report when a graph ends, or another call fails, a captured stream gets no memory, and the
// accounting does not change.
func TestCapturesThatCannotBeFollowed(t *testing.T) {
	d, captures := newCapturing(t, simulated.Options{})
	m := initializedOn(t, d, d, 8)
	stream := newStream(t, d)
	require.NoError(t, captures.BeginCapture(0, stream))
	before := stats(t, m, "GPU:0")
	for _, row := range []struct {
		call   string
		result gpu.Result
		code   status.Code
		text   string
	}{
		{"StreamGetCaptureLife", gpu.ErrorNotSupported, status.Unimplemented,
			"the driver does not report when the graph is destroyed"},
		{"StreamGetCaptureLife", gpu.ErrorUnknown, status.Unknown, "the driver does not report when the graph is " +
			"destroyed"},
		{"StreamGetCaptureInfo", gpu.ErrorUnknown, status.Unknown,
			"is being captured: injected into StreamGetCaptureInfo"},
	} {
		d.SetFaults(func(c faults.Call) error {
			if c.Op == row.call {
				return row.result
			}
			return nil
		})
		must.Fail(t, row.code, must.Err(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, mib, 0)), row.text)
		require.Equal(t, before, stats(t, m, "GPU:0"))
	}
	d.SetFaults()
	require.NoError(t, m.Free(must.OK(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, mib, 0))(t).Addr))
	require.Zero(t, must.OK(m.AllocateKnowing(0, -1, stream, devmgr.Lasting, 0, 0))(t))
	require.NoError(t, captures.DestroyGraph(0, must.OK(captures.EndCapture(0, stream))(t)))
	require.Zero(t, stats(t, m, "GPU:0").CapturedBytes)
}
