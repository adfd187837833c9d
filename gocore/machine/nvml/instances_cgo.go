// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuconf/gocore/machine/gpu"
)

// instances returns the MIG devices of a card that can be read; failed says which could not.
func instances(card nvml.Device, who string) (listed []gpu.Instance, failed error) {
	places, ret := card.GetMaxMigDeviceCount()
	if err := failure(ret, "nvmlDeviceGetMaxMigDeviceCount of "+who); err != nil {
		return nil, err
	}
	for place := range places {
		device, ret := card.GetMigDeviceHandleByIndex(place)
		if Result(ret) == ErrorNotFound {
			continue // no instance was created here
		}
		instance, err := gpu.Instance{}, failure(ret, fmt.Sprintf("nvmlDeviceGetMigDeviceHandleByIndex %d of %s",
			place, who))
		if err == nil {
			instance, err = readInstance(device, fmt.Sprintf("MIG instance %d of %s", place, who))
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		listed = append(listed, instance)
	}
	return listed, failed
}

// readInstance reads one MIG device. If part of it cannot be read, that is an error: without it the instance cannot be
// identified.
func readInstance(device nvml.Device, who string) (instance gpu.Instance, failed error) {
	read := func(ret nvml.Return, call string) {
		failed = errors.Join(failed, failure(ret, call+" of "+who))
	}
	var ret nvml.Return
	instance.UUID, ret = device.GetUUID()
	read(ret, "nvmlDeviceGetUUID")
	instance.Name, ret = device.GetName()
	read(ret, "nvmlDeviceGetName")
	instance.GPUInstanceID, ret = device.GetGpuInstanceId()
	read(ret, "nvmlDeviceGetGpuInstanceId")
	instance.ComputeInstanceID, ret = device.GetComputeInstanceId()
	read(ret, "nvmlDeviceGetComputeInstanceId")
	return instance, failed
}
