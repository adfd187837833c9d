//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/tests_go/devices/handover"
)

// The programs of the exhaustive test on a driver whose streams run in the background: random orders of calls, slow
// work.
func TestHandOversOnADriver(t *testing.T) {
	for name, environ := range map[string]map[string]string{"words": {}, "events": {"FAKECUDA_WITHOUT": "memops"}} {
		t.Run(name, func(t *testing.T) {
			configure(t, environ)
			driver := open(t)
			devices, err := driver.Devices()
			require.NoError(t, err)
			require.Equal(t, name == "words", devices[0].StreamMemOps)
			fake.Delay(20)
			defer fake.Delay(0)
			for i, program := range handover.Programs() {
				handover.Sample(t, driver, program, 25, uint64(i))
			}
		})
	}
}

// Graphs that another library captures, in CUDA's strictest mode, on a pool over the driver.
func TestCapturesOnADriver(t *testing.T) {
	for name, environ := range map[string]map[string]string{"words": {}, "events": {"FAKECUDA_WITHOUT": "memops"}} {
		t.Run(name, func(t *testing.T) {
			configure(t, environ)
			handover.Captures(t, func(t *testing.T) handover.Capturing { return capturer{open(t)} })
		})
	}
}
