// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/config"
	"gpuconf/gocore/models"
	"gpuconf/gocore/status"
	"gpuconf/pybind/process"
)

// Identities returns the GPUs that the process sees, with all their names, as a list of objects.
func Identities() (devices string, err error) {
	defer process.Gate(&err)
	found, err := process.Shared().Identities()
	if err != nil {
		return "", err
	}
	source := "CUDA"
	if process.Shared().Simulated() {
		source = "simulation"
	}
	list := make([]map[string]any, len(found))
	for i, id := range found {
		list[i] = map[string]any{
			"cuda_ordinal":       id.Device.Ordinal,
			"physical_device":    orNull(id.Physical, ""),
			"name":               id.Device.Name,
			"uuid":               id.Device.UUID,
			"pci_bus_id":         id.Device.PCIBusID,
			"nvml_index":         orNull(id.NVMLIndex, -1),
			"compute_capability": [2]int{id.Device.ComputeMajor, id.Device.ComputeMinor},
			"total_memory":       id.Device.TotalBytes,
			"memory_kind":        id.Device.MemoryKind.String(),
			"memory_source":      source,
		}
	}
	return encode(list)
}

// orNull returns nil if the value equals the one that means none.
func orNull[T comparable](value, none T) any {
	if value == none {
		return nil
	}
	return value
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
