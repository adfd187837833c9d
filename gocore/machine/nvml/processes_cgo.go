// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

const (
	bytesNotKnown = math.MaxUint64 // NVML_VALUE_NOT_AVAILABLE
	noInstance    = math.MaxUint32 // without MIG
)

// Processes returns the processes that use a card or an instance, in the order of NVML's lists: compute, compute
// through the multi-process service, graphics. NVML lists a process in each list that applies, with the same memory;
// here it is listed once.
func (m *monitor) Processes(uuid string) ([]gpu.Process, error) {
	leave, err := m.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	device, err := m.find(uuid)
	if err != nil {
		return nil, err
	}
	merged := processList{}
	var unsupported error
	supported := false
	for _, list := range []struct {
		name string
		get  func() ([]nvml.ProcessInfo, nvml.Return)
	}{
		{"nvmlDeviceGetComputeRunningProcesses", device.GetComputeRunningProcesses},
		{"nvmlDeviceGetMPSComputeRunningProcesses", device.GetMPSComputeRunningProcesses},
		{"nvmlDeviceGetGraphicsRunningProcesses", device.GetGraphicsRunningProcesses},
	} {
		infos, ret := list.get()
		err := failure(ret, list.name+" of "+uuid)
		switch {
		case err == nil:
			supported = true
			merged.add(infos)
		case status.CodeOf(err) != status.Unimplemented:
			return nil, err
		case unsupported == nil:
			unsupported = err
		}
	}
	switch {
	case !supported:
		return nil, unsupported
	case len(merged.list) == 0 && m.host.WSL:
		return nil, status.Errorf(status.Unimplemented, "the NVIDIA driver does not list processes under WSL, so "+
			"the processes that use %s are unknown", uuid)
	}
	return merged.list, nil
}

// processList contains each process once per instance that it uses.
type processList struct {
	list []gpu.Process
}

func (p *processList) add(infos []nvml.ProcessInfo) {
	for _, info := range infos {
		next := gpu.Process{
			PID:               int(info.Pid),
			GPUInstanceID:     instanceID(info.GpuInstanceId),
			ComputeInstanceID: instanceID(info.ComputeInstanceId),
		}
		if info.UsedGpuMemory != bytesNotKnown {
			next.UsedBytes, next.BytesKnown = info.UsedGpuMemory, true
		}
		p.merge(next)
	}
}

func (p *processList) merge(next gpu.Process) {
	for i := range p.list {
		known := &p.list[i]
		if known.PID == next.PID && known.GPUInstanceID == next.GPUInstanceID &&
			known.ComputeInstanceID == next.ComputeInstanceID {
			known.UsedBytes = max(known.UsedBytes, next.UsedBytes)
			known.BytesKnown = known.BytesKnown || next.BytesKnown
			return
		}
	}
	p.list = append(p.list, next)
}

func instanceID(id uint32) int {
	if id == noInstance {
		return -1
	}
	return int(id)
}
