//go:build cgo

package nvml_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/nvml"
	"gpuconf/tests_go/attempt"
)

// TestTheDriverOfThisMachine runs if there is one.
func TestTheDriverOfThisMachine(t *testing.T) {
	monitor, err := nvml.Open()
	if status.CodeOf(err) == status.Unavailable {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, monitor.Close()) }()
	system := attempt.Get(monitor.System())
	require.Regexp(t, `^\d+\.\d+`, system.DriverVersion)
	cards := attempt.Get(monitor.Cards())
	t.Logf("%+v", system)
	for _, card := range cards {
		t.Logf("%+v", card)
		if card.Err != nil {
			continue // reported above
		}
		require.Regexp(t, `^GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, card.UUID)
		require.Regexp(t, `^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.0$`, card.PCIBusID)
		require.NotEmpty(t, card.Name)
		require.Positive(t, card.ComputeMajor)
		memory, err := monitor.Memory(card.UUID)
		if status.CodeOf(err) != status.Unimplemented {
			require.NoError(t, err)
			require.Equal(t, memory.TotalBytes, memory.UsedBytes+memory.FreeBytes)
		}
		processes, err := monitor.Processes(card.UUID)
		if status.CodeOf(err) != status.Unimplemented {
			require.NoError(t, err)
		}
		for _, process := range processes {
			require.True(t, system.HostPIDs || process.PID != os.Getpid(), "looking made a context")
		}
		t.Logf("%+v %+v", memory, processes)
	}
}
