//go:build cgo && linux && (amd64 || arm64)

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

func TestIdentity(t *testing.T) {
	configure(t, map[string]string{"FAKECUDA_GPUS": "2", "FAKECUDA_MEMORY": "2147483648"})
	before := fake.Count("cuDevicePrimaryCtxRetain")
	devices := attempt.Get(open(t).Devices())
	require.Equal(t, []gpu.Device{
		{
			Ordinal: 0, UUID: "GPU-f0ced00d-1234-4567-89ab-cdef01234500", PCIBusID: "0000:1a:00.0",
			Name:         "NVIDIA Fake 2GB",
			ComputeMajor: 9, Multiprocessors: 132, TotalBytes: 2 << 30, GreatestPriority: -5, VMM: true,
			StreamMemOps: true,
			Managed:      true, Oversubscribes: true,
		},
		{
			Ordinal: 1, UUID: "GPU-edced00d-1234-4567-89ab-cdef01234501", PCIBusID: "0000:2a:00.0",
			Name:         "NVIDIA Fake 2GB",
			ComputeMajor: 9, Multiprocessors: 132, TotalBytes: 2 << 30, GreatestPriority: -5, VMM: true,
			StreamMemOps: true,
			Managed:      true, Oversubscribes: true,
		},
	}, devices)
	require.Equal(t, before, fake.Count("cuDevicePrimaryCtxRetain"), "listing created a context")
}

func TestMIGInstanceHasItsOwnName(t *testing.T) {
	configure(t, map[string]string{"GPUCONF_SIMULATE": "H100-80GB:mig-container"})
	devices := attempt.Get(open(t).Devices())
	require.Equal(t, "MIG-e6a9003a-7a6b-5489-1571-9bcea06ce084", devices[0].UUID)
	require.Equal(t, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", devices[0].Name)
}

func TestVisibleDevicesAreTheDriversOwn(t *testing.T) {
	for value, want := range map[string][]string{
		"2,0":                           {"0000:3a:00.0", "0000:1a:00.0"},
		"GPU-ea,GPU-f0":                 {"0000:3a:00.0", "0000:1a:00.0"},
		"1,9,0":                         {"0000:2a:00.0"},
		"GPU-edced00d-1234-4567-89ab-c": {"0000:2a:00.0"},
		"0,1,0":                         nil,
		"none":                          nil,
	} {
		t.Run(value, func(t *testing.T) {
			configure(t, map[string]string{"FAKECUDA_GPUS": "3", "CUDA_VISIBLE_DEVICES": value})
			devices := attempt.Get(open(t).Devices())
			var got []string
			for i, device := range devices {
				require.Equal(t, i, device.Ordinal)
				got = append(got, device.PCIBusID)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestWhatACardCannotDo(t *testing.T) {
	can := func(greatest int, but ...func(*gpu.Device)) gpu.Device {
		device := gpu.Device{GreatestPriority: greatest, VMM: true, StreamMemOps: true, Managed: true,
			Oversubscribes: true}
		for _, change := range but {
			change(&device)
		}
		return device
	}
	for name, row := range map[string]struct {
		environ map[string]string
		want    gpu.Device
	}{
		"new":           {nil, can(-5)},
		"old":           {map[string]string{"GPUCONF_SIMULATE": "GTX1080Ti"}, can(-2)},
		"no priorities": {map[string]string{"FAKECUDA_WITHOUT": "priorities"}, can(0)},
		"no vmm":        {map[string]string{"FAKECUDA_WITHOUT": "vmm"}, can(-5, func(d *gpu.Device) { d.VMM = false })},
		"no memops": {map[string]string{"FAKECUDA_WITHOUT": "memops"},
			can(-5, func(d *gpu.Device) { d.StreamMemOps = false })},
		"Kepler": {map[string]string{"GPUCONF_SIMULATE": "K80"}, can(-2, func(d *gpu.Device) {
			d.VMM, d.Oversubscribes = false, false
		})},
		"Linux in WSL": {map[string]string{"FAKECUDA_WITHOUT": "concurrent"},
			can(-5, func(d *gpu.Device) { d.Oversubscribes = false })},
		"a vGPU": {map[string]string{"FAKECUDA_WITHOUT": "managed"}, can(-5, func(d *gpu.Device) {
			d.Managed, d.Oversubscribes = false, false
		})},
	} {
		t.Run(name, func(t *testing.T) {
			configure(t, row.environ)
			driver := open(t)
			devices := attempt.Get(driver.Devices())
			got := devices[0]
			require.Equal(t, row.want, gpu.Device{
				LeastPriority: got.LeastPriority, GreatestPriority: got.GreatestPriority, VMM: got.VMM,
				StreamMemOps: got.StreamMemOps,
				Managed:      got.Managed, Oversubscribes: got.Oversubscribes,
			})
			require.NoError(t, driver.ContextRetain(0))
			if !got.VMM {
				_, _, err := driver.MemGetAllocationGranularity(0)
				require.ErrorIs(t, err, gpu.ErrorNotSupported)
				_, err = driver.MemCreate(0, 2<<20)
				require.ErrorIs(t, err, gpu.ErrorNotSupported)
				require.ErrorIs(t, driver.MemSetAccess(0, 1<<40, 2<<20), gpu.ErrorNotSupported)
			}
			if !got.Managed {
				_, err := driver.MemAllocManaged(0, 2<<20)
				require.ErrorIs(t, err, gpu.ErrorNotSupported)
			}
			if !got.StreamMemOps {
				require.ErrorIs(t, driver.StreamWriteValue64(0, gpu.StreamNull, 64, 1), gpu.ErrorNotSupported)
				require.ErrorIs(t, driver.StreamWaitValue64(0, gpu.StreamNull, 64, 1), gpu.ErrorNotSupported)
			}
		})
	}
}
