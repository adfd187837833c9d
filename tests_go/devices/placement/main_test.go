package placement_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/devices/placement"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/host"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/tf/config"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

func TestMain(m *testing.M) { simulated.Main(m) }

// machine is a simulated machine with everything that operations need.
type machine struct {
	placement.Machine
	memory *host.Memory
	sim    *simulated.Machine
}

// newMachine is initialized with the given options. At the end of the test nothing may be left on it.
func newMachine(t testing.TB, spec string, options config.Options) machine {
	t.Helper()
	parsed := must.OK(models.ParseSpec(spec))(t)
	card := must.OK(simulated.New(parsed, simulated.Options{}))(t)
	manager := must.OK(devmgr.New(card, nil))(t)
	must.OK2(manager.Join(options, nil, "main.py:1", nil))(t)
	memory := &host.Memory{}
	t.Cleanup(func() {
		blocks, bytes := memory.Stats()
		require.Zero(t, blocks, "blocks of host memory left behind")
		require.Zero(t, bytes)
		require.NoError(t, manager.Close(false), "memory of a pool left behind")
	})
	return machine{
		Machine: placement.Machine{
			Manager: manager, Memory: memory, CPU: host.Compute{},
			GPU:    func(int, gpu.Device) gpu.Compute { return host.Compute{} },
			Holder: func() holder.ID { return holder.Of(holder.Gpuconf, 0) },
		},
		memory: memory,
		sim:    card,
	}
}

func devices(t testing.TB, m machine, cpus, gpus int) *graph.Devices {
	t.Helper()
	return must.OK(m.Devices(cpus, gpus))(t)
}

// bytesInUse returns the bytes in use of host memory, and of each pool.
func bytesInUse(t require.TestingT, m machine) []uint64 {
	_, bytes := m.memory.Stats()
	book := []uint64{bytes}
	for number := range m.Manager.LogicalGPUs() {
		book = append(book, must.OK(m.Manager.MemoryStats("GPU:"+string(rune('0'+number))))(t).BytesInUse)
	}
	return book
}
