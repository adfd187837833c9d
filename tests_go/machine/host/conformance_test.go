package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/host"
	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/attempt"
	"gpuconf/tests_go/machine/computetest"
	"gpuconf/tests_go/machine/simulated"
)

func TestComputeOnHostMemory(t *testing.T) {
	computetest.TestCompute(t, func(t *testing.T) computetest.Device {
		m, ids := &host.Memory{}, map[uint64]uint64{}
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		return computetest.Device{
			Compute: host.Compute{},
			Allocate: func(bytes uint64) uint64 {
				addr, id, err := m.Allocate(bytes)
				require.NoError(t, err)
				ids[addr] = id
				return addr
			},
			Write: func(addr uint64, src []byte) { require.NoError(t, m.CopyFromHost(addr, ids[addr], 0, src)) },
			Read:  func(dst []byte, addr uint64) { require.NoError(t, m.CopyToHost(addr, ids[addr], 0, dst)) },
		}
	})
}

func TestComputeOnSimulatedMemory(t *testing.T) {
	computetest.TestCompute(t, func(t *testing.T) computetest.Device {
		spec := attempt.Get(models.ParseSpec("T4:64MiB"))
		m := attempt.Get(simulated.New(spec, simulated.Options{}))
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		require.NoError(t, m.ContextRetain(0))
		return computetest.Device{
			Compute: host.Compute{},
			Allocate: func(bytes uint64) uint64 {
				return attempt.Get(m.MemAlloc(0, bytes))
			},
			Write: func(addr uint64, src []byte) { require.NoError(t, m.MemcpyHtoD(0, addr, src)) },
			Read:  func(dst []byte, addr uint64) { require.NoError(t, m.MemcpyDtoH(0, dst, addr)) },
		}
	})
}
