//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

// Memory tells what a card's or an instance's memory holds.
//
// It asks nvmlDeviceGetMemoryInfo and not _v2: the difference is that _v2 tells apart what the driver keeps for itself, and
// old drivers don't have it.
func (m *monitor) Memory(uuid string) (gpu.MemoryUse, error) {
	leave, err := m.enter()
	if err != nil {
		return gpu.MemoryUse{}, err
	}
	defer leave()
	device, err := m.find(uuid)
	if err != nil {
		return gpu.MemoryUse{}, err
	}
	memory, ret := device.GetMemoryInfo()
	if Result(ret) == ErrorNotSupported {
		return gpu.MemoryUse{}, status.Errorf(status.Unimplemented, "nvmlDeviceGetMemoryInfo of %s: %w: the GPU has no memory of its "+
			"own to tell about, as one that shares the host's; CUDA tells what it may use", uuid, ErrorNotSupported)
	}
	if err := failure(ret, "nvmlDeviceGetMemoryInfo of "+uuid); err != nil {
		return gpu.MemoryUse{}, err
	}
	return gpu.MemoryUse{TotalBytes: memory.Total, UsedBytes: memory.Used, FreeBytes: memory.Free}, nil
}
