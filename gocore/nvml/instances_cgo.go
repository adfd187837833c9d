//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuconf/gocore/gpu"
)

// instances lists the MIG devices of a card, those that can be read, and says what could not be.
func instances(card nvml.Device, who string) (found []gpu.Instance, failed error) {
	places, ret := card.GetMaxMigDeviceCount()
	if err := failure(ret, "nvmlDeviceGetMaxMigDeviceCount of "+who); err != nil {
		return nil, err
	}
	for place := range places {
		device, ret := card.GetMigDeviceHandleByIndex(place)
		if Result(ret) == ErrorNotFound {
			continue // nothing was created here
		}
		instance, err := gpu.Instance{}, failure(ret, fmt.Sprintf("nvmlDeviceGetMigDeviceHandleByIndex %d of %s", place, who))
		if err == nil {
			instance, err = readInstance(device, fmt.Sprintf("MIG instance %d of %s", place, who))
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		found = append(found, instance)
	}
	return found, failed
}

// readInstance reads one MIG device. One that can't be read whole is none: nobody could name it.
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
