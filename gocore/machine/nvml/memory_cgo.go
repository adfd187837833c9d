// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// Memory returns the memory use of a card or an instance.
//
// It calls nvmlDeviceGetMemoryInfo instead of _v2: the only difference is that _v2 reports the driver's reserved memory
// separately, and old drivers do not have it.
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
		return gpu.MemoryUse{}, status.Errorf(status.Unimplemented, "nvmlDeviceGetMemoryInfo of %s: %w: the GPU has "+
			"no dedicated memory, for example because it shares the host's; use CUDA to query what it may use",
			uuid, ErrorNotSupported)
	}
	if err := failure(ret, "nvmlDeviceGetMemoryInfo of "+uuid); err != nil {
		return gpu.MemoryUse{}, err
	}
	return gpu.MemoryUse{TotalBytes: memory.Total, UsedBytes: memory.Used, FreeBytes: memory.Free}, nil
}
