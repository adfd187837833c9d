// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// Identities returns the GPUs that the process sees, with all their names, as a list of objects.
func Identities() (devices string, err error) {
	defer process.Gate(&err)
	identities, err := process.Shared().Identities()
	if err != nil {
		return "", err
	}
	source := "CUDA"
	if process.Shared().Simulated() {
		source = "simulation"
	}
	list := make([]wire.VisibleDevice, len(identities))
	for i, id := range identities {
		list[i] = wire.VisibleDevice{CUDAOrdinal: id.Device.Ordinal, PhysicalDevice: wire.Maybe(id.Physical, ""),
			Name: id.Device.Name, UUID: id.Device.UUID, PCIBusID: id.Device.PCIBusID,
			NVMLIndex:         wire.Maybe(id.NVMLIndex, -1),
			ComputeCapability: [2]int{id.Device.ComputeMajor, id.Device.ComputeMinor},
			TotalMemory:       id.Device.TotalBytes, MemoryKind: id.Device.MemoryKind.String(), MemorySource: source}
	}
	return wire.Encode(list)
}

// SystemReserve returns the bytes of a GPU that TensorFlow leaves to the system by default, for a GPU whose memory is
// unused.
func SystemReserve(totalBytes, computeMajor int64) (bytes int64, err error) {
	defer process.Gate(&err)
	if totalBytes < 0 {
		return 0, status.Errorf(status.InvalidArgument, "totalBytes is %d: it must not be negative", totalBytes)
	}
	return int64(config.SystemReserve(uint64(totalBytes), int(computeMajor))), nil
}

// ContextBytes returns the bytes that a process's CUDA context takes on a GPU, as far as public figures tell.
func ContextBytes(totalBytes, computeMajor int64) (bytes int64, err error) {
	defer process.Gate(&err)
	if totalBytes < 0 {
		return 0, status.Errorf(status.InvalidArgument, "totalBytes is %d: it must not be negative", totalBytes)
	}
	return int64(models.ContextBytes(uint64(totalBytes), int(computeMajor))), nil
}
