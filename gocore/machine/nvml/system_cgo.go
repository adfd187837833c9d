// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// System returns the driver's version, and CUDA's if the driver reports it.
func (m *monitor) System() (gpu.System, error) {
	leave, err := m.enter()
	if err != nil {
		return gpu.System{}, err
	}
	defer leave()
	driver, ret := m.lib.SystemGetDriverVersion()
	if err := failure(ret, "nvmlSystemGetDriverVersion"); err != nil {
		return gpu.System{}, err
	}
	// Not _v2, which loads libcuda and fails without it.
	cuda, ret := m.lib.SystemGetCudaDriverVersion()
	if err := failure(ret, "nvmlSystemGetCudaDriverVersion"); status.CodeOf(err) == status.Unimplemented {
		cuda = 0
	} else if err != nil {
		return gpu.System{}, err
	}
	return gpu.System{
		DriverVersion: driver,
		CUDAMajor:     cuda / 1000, // 12040 is 12.4
		CUDAMinor:     cuda % 1000 / 10,
		HostPIDs:      m.host.PIDNamespace,
	}, nil
}
