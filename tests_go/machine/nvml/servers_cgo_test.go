//go:build cgo

package nvml_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	upstream "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxb200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/nvml"
	"gpuconf/tests_go/attempt"
)

// none is the result of a device without a list of processes.
func none() ([]upstream.ProcessInfo, upstream.Return) { return nil, upstream.SUCCESS }

// card returns one card of a mock server, with lists of processes, which the server lacks.
func card(s *server.Server, index int) *server.Device {
	device := s.Devices[index].(*server.Device)
	device.GetComputeRunningProcessesFunc = none
	device.GetMPSComputeRunningProcessesFunc = none
	device.GetGraphicsRunningProcessesFunc = none
	device.GetAddressingModeFunc = func() (upstream.DeviceAddressingMode, upstream.Return) {
		return upstream.DeviceAddressingMode{}, upstream.ERROR_FUNCTION_NOT_FOUND
	}
	return device
}

// allCards prepares every card of a mock server.
func allCards(s *server.Server) *server.Server {
	for i := range s.Devices {
		card(s, i)
	}
	return s
}

func TestNVIDIAsOwnMachines(t *testing.T) {
	for _, row := range []struct {
		name         string
		server       *server.Server
		card, driver string
		major, minor int
		gib          uint64
		cuda         [2]int
	}{
		{"DGX A100", dgxa100.New(), "Mock NVIDIA A100-SXM4-40GB", "550.54.15", 8, 0, 40, [2]int{12, 4}},
		{"DGX H100", dgxh100.New(), "NVIDIA H100 80GB HBM3", "550.54.15", 9, 0, 80, [2]int{12, 4}},
		{"DGX H200", dgxh200.New(), "NVIDIA H200 141GB HBM3e", "550.54.15", 9, 0, 141, [2]int{12, 4}},
		{"DGX B200", dgxb200.New(), "NVIDIA B200 180GB HBM3e", "560.28.03", 10, 0, 180, [2]int{12, 6}},
	} {
		t.Run(row.name, func(t *testing.T) {
			allCards(row.server)
			monitor := attempt.Get(nvml.Over(row.server, nvml.Host{}))
			system := attempt.Get(monitor.System())
			require.Equal(t, gpu.System{DriverVersion: row.driver, CUDAMajor: row.cuda[0], CUDAMinor: row.cuda[1]},
				system)
			cards := attempt.Get(monitor.Cards())
			require.Len(t, cards, 8)
			for i, got := range cards {
				device := card(row.server, i)
				require.NoError(t, got.Err)
				require.Equal(t, gpu.Card{
					Index: i, UUID: device.UUID, PCIBusID: "0000:00:00.0", Name: row.card,
					ComputeMajor: row.major, ComputeMinor: row.minor, MIG: gpu.MIGOff,
				}, got)
				require.Equal(t, row.gib<<30, attempt.Get(monitor.Memory(got.UUID)).TotalBytes)
				require.Empty(t, attempt.Get(monitor.Processes(got.UUID)))
			}
			require.NoError(t, monitor.Close())
			require.NoError(t, monitor.Close())
			require.Len(t, row.server.ShutdownCalls(), 1)
		})
	}
}

func TestADividedH100(t *testing.T) {
	machine := allCards(dgxh100.New())
	device := card(machine, 3)
	_, ret := device.SetMigMode(upstream.DEVICE_MIG_ENABLE)
	require.Equal(t, upstream.SUCCESS, ret)
	device.GetMaxMigDeviceCountFunc = func() (int, upstream.Return) { return 7, upstream.SUCCESS }
	device.GetMigDeviceHandleByIndexFunc = func(place int) (upstream.Device, upstream.Return) {
		if place != 1 && place != 5 {
			return nil, upstream.ERROR_NOT_FOUND
		}
		return &mock.Device{
			GetUUIDFunc: func() (string, upstream.Return) {
				return fmt.Sprintf("MIG-%d", place),
					upstream.SUCCESS
			},
			GetNameFunc: func() (string, upstream.Return) {
				return "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
					upstream.SUCCESS
			},
			GetGpuInstanceIdFunc:     func() (int, upstream.Return) { return 7 + place, upstream.SUCCESS },
			GetComputeInstanceIdFunc: func() (int, upstream.Return) { return 0, upstream.SUCCESS },
		}, upstream.SUCCESS
	}
	monitor := attempt.Get(nvml.Over(machine, nvml.Host{}))
	cards := attempt.Get(monitor.Cards())
	require.NoError(t, cards[3].Err)
	require.Equal(t, gpu.MIGOn, cards[3].MIG)
	require.Equal(t, []gpu.Instance{
		{UUID: "MIG-1", Name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", GPUInstanceID: 8},
		{UUID: "MIG-5", Name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", GPUInstanceID: 12},
	}, cards[3].Instances)
	require.Equal(t, gpu.MIGOff, cards[2].MIG)
}

func TestOneProcessInTwoListsIsOne(t *testing.T) {
	info := func(pid uint32, bytes uint64) upstream.ProcessInfo {
		return upstream.ProcessInfo{Pid: pid, UsedGpuMemory: bytes, GpuInstanceId: math.MaxUint32,
			ComputeInstanceId: math.MaxUint32}
	}
	machine := dgxa100.New()
	device := card(machine, 0)
	device.GetComputeRunningProcessesFunc = func() ([]upstream.ProcessInfo, upstream.Return) {
		return []upstream.ProcessInfo{info(10, 4096), info(11, math.MaxUint64), info(12, math.MaxUint64)},
			upstream.SUCCESS
	}
	device.GetGraphicsRunningProcessesFunc = func() ([]upstream.ProcessInfo, upstream.Return) {
		return []upstream.ProcessInfo{info(10, 4096), info(11, 512)}, upstream.SUCCESS
	}
	monitor := attempt.Get(nvml.Over(machine, nvml.Host{}))
	processes := attempt.Get(monitor.Processes(device.UUID))
	require.Equal(t, []gpu.Process{
		{PID: 10, UsedBytes: 4096, BytesKnown: true, GPUInstanceID: -1, ComputeInstanceID: -1},
		{PID: 11, UsedBytes: 512, BytesKnown: true, GPUInstanceID: -1, ComputeInstanceID: -1},
		{PID: 12, GPUInstanceID: -1, ComputeInstanceID: -1},
	}, processes)
}

func TestNobodyUnderWSLIsNotNobody(t *testing.T) {
	machine := dgxh100.New()
	device := card(machine, 0)
	monitor := attempt.Get(nvml.Over(machine, nvml.Host{WSL: true}))
	_, err := monitor.Processes(device.UUID)
	require.Equal(t, status.Unimplemented, status.CodeOf(err))
	require.ErrorContains(t, err, "WSL")
}

func TestInAContainerPIDsAreTheHosts(t *testing.T) {
	monitor := attempt.Get(nvml.Over(dgxh100.New(), nvml.Host{PIDNamespace: true}))
	system := attempt.Get(monitor.System())
	require.True(t, system.HostPIDs)
}

func TestADriverThatDoesNotTellItsCUDA(t *testing.T) {
	machine := dgxh100.New()
	machine.SystemGetCudaDriverVersionFunc = func() (int, upstream.Return) {
		return 0,
			upstream.ERROR_FUNCTION_NOT_FOUND
	}
	monitor := attempt.Get(nvml.Over(machine, nvml.Host{}))
	require.Equal(t, gpu.System{DriverVersion: "550.54.15"}, attempt.Get(monitor.System()))
}

func TestUnknownUUIDs(t *testing.T) {
	monitor := attempt.Get(nvml.Over(dgxh100.New(), nvml.Host{}))
	for _, uuid := range []string{"", "GPU-1", "MIG-1", "0"} {
		_, err := monitor.Memory(uuid)
		require.Equal(t, status.NotFound, status.CodeOf(err))
		_, err = monitor.Processes(uuid)
		require.Equal(t, status.NotFound, status.CodeOf(err))
	}
}

func TestAFailureIsAResultToo(t *testing.T) {
	machine := dgxh100.New()
	machine.InitFunc = func() upstream.Return { return upstream.ERROR_NO_PERMISSION }
	_, err := nvml.Over(machine, nvml.Host{})
	require.ErrorIs(t, err, nvml.Result(upstream.ERROR_NO_PERMISSION))
}

func TestAfterClose(t *testing.T) {
	monitor := attempt.Get(nvml.Over(dgxh100.New(), nvml.Host{}))
	require.NoError(t, monitor.Close())
	_, err := monitor.System()
	require.Equal(t, status.FailedPrecondition, status.CodeOf(err))
	_, err = monitor.Cards()
	require.Equal(t, status.FailedPrecondition, status.CodeOf(err))
	_, err = monitor.Memory("GPU-1")
	require.Equal(t, status.FailedPrecondition, status.CodeOf(err))
	_, err = monitor.Processes("GPU-1")
	require.Equal(t, status.FailedPrecondition, status.CodeOf(err))
}

// TestCallsMeetAClose is for the race detector: no call reaches NVML after Close.
func TestCallsMeetAClose(t *testing.T) {
	machine := allCards(dgxh100.New())
	var shut bool // written by Shutdown: any concurrent call would be a race
	machine.ShutdownFunc = func() upstream.Return { shut = true; return upstream.SUCCESS }
	machine.DeviceGetCountFunc = func() (int, upstream.Return) {
		if shut {
			return 0, upstream.ERROR_UNINITIALIZED
		}
		return 8, upstream.SUCCESS
	}
	monitor := attempt.Get(nvml.Over(machine, nvml.Host{}))
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				if _, err := monitor.Cards(); err != nil {
					require.ErrorContains(t, err, "the monitor is closed")
					return
				}
			}
		})
	}
	require.NoError(t, monitor.Close())
	callers.Wait()
}
