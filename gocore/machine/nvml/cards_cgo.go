// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// Cards returns the GPUs in NVML's order.
func (m *monitor) Cards() ([]gpu.Card, error) {
	leave, err := m.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	count, ret := m.lib.DeviceGetCount()
	if err := failure(ret, "nvmlDeviceGetCount"); err != nil {
		return nil, err
	}
	cards := make([]gpu.Card, count)
	for index := range cards {
		cards[index] = m.card(index)
	}
	return cards, nil
}

// card reads as much as possible about one GPU.
func (m *monitor) card(index int) gpu.Card {
	card := gpu.Card{Index: index}
	device, ret := m.lib.DeviceGetHandleByIndex(index)
	if card.Err = failure(ret, fmt.Sprintf("nvmlDeviceGetHandleByIndex %d", index)); card.Err != nil {
		return card
	}
	// read records what could not be read. The UUID comes first, because later messages name the card by it.
	who := fmt.Sprintf("GPU %d", index)
	read := func(ret nvml.Return, call string) bool {
		err := failure(ret, call+" of "+who)
		card.Err = errors.Join(card.Err, err)
		return err == nil
	}
	card.UUID, ret = device.GetUUID()
	if read(ret, "nvmlDeviceGetUUID") {
		who = card.UUID
	}
	card.Name, ret = device.GetName()
	read(ret, "nvmlDeviceGetName")
	pci, ret := device.GetPciInfo()
	if read(ret, "nvmlDeviceGetPciInfo") {
		card.PCIBusID = busID(pci)
	}
	card.ComputeMajor, card.ComputeMinor, ret = device.GetCudaComputeCapability()
	read(ret, "nvmlDeviceGetCudaComputeCapability")
	card.MemoryKind, ret = memoryKind(device, card.Name)
	read(ret, "nvmlDeviceGetAddressingMode")
	card.MIG, ret = migMode(device)
	read(ret, "nvmlDeviceGetMigMode")
	if card.MIG == gpu.MIGOn {
		var err error
		card.Instances, err = instances(device, who)
		card.Err = errors.Join(card.Err, err)
	}
	return card
}

// busID formats the PCI address as CUDA does. NVML's own string has eight digits for the domain, and its legacy string
// truncates it. A GPU is always function 0 of its device.
func busID(pci nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
}

// integrated are parts of the names of GPUs that share the host's memory. Some drivers for them report numbers, which
// are wrong: 8128 MiB for an N1X (github.com/unslothai/unsloth/issues/10283). CUDA knows better, but a survey does not
// load it.
var integrated = []string{"GB10", "N1X", "Orin", "Thor", "Xavier", "Tegra", "nvgpu"}

// memoryKind returns where a card's memory is. NVML has no direct answer: a GPU without memory of its own does not
// support the query of its size, and one that the CPU can access uses the CPU's page tables (ATS, address translation
// services).
func memoryKind(device nvml.Device, name string) (gpu.MemoryKind, nvml.Return) {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '(' || r == ')' })
	if slices.ContainsFunc(words, func(word string) bool { return slices.Contains(integrated, word) }) {
		return gpu.Unified, nvml.SUCCESS
	}
	if _, ret := device.GetMemoryInfo(); ret == nvml.ERROR_NOT_SUPPORTED {
		return gpu.Unified, nvml.SUCCESS
	}
	mode, ret := device.GetAddressingMode()
	switch {
	case status.CodeOf(failure(ret, "")) == status.Unimplemented:
		return gpu.Dedicated, nvml.SUCCESS
	case ret == nvml.SUCCESS && mode.Value == uint32(nvml.DEVICE_ADDRESSING_MODE_ATS):
		return gpu.Coherent, ret
	}
	return gpu.Dedicated, ret
}

func migMode(device nvml.Device) (gpu.MIGMode, nvml.Return) {
	current, _, ret := device.GetMigMode()
	switch {
	case status.CodeOf(failure(ret, "")) == status.Unimplemented:
		return gpu.MIGAbsent, nvml.SUCCESS
	case ret != nvml.SUCCESS:
		return gpu.MIGUnknown, ret
	case current == nvml.DEVICE_MIG_ENABLE:
		return gpu.MIGOn, ret
	}
	return gpu.MIGOff, ret
}

// instances returns the MIG devices of a card that can be read; failed says which could not.
func instances(card nvml.Device, who string) (listed []gpu.Instance, failed error) {
	places, ret := card.GetMaxMigDeviceCount()
	if err := failure(ret, "nvmlDeviceGetMaxMigDeviceCount of "+who); err != nil {
		return nil, err
	}
	for place := range places {
		device, ret := card.GetMigDeviceHandleByIndex(place)
		if ret == nvml.ERROR_NOT_FOUND {
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
	if ret == nvml.ERROR_NOT_SUPPORTED {
		return gpu.MemoryUse{}, status.Errorf(status.Unimplemented, "nvmlDeviceGetMemoryInfo of %s: %w: the GPU has "+
			"no dedicated memory, for example because it shares the host's; use CUDA to query what it may use",
			uuid, Result(ret))
	}
	if err := failure(ret, "nvmlDeviceGetMemoryInfo of "+uuid); err != nil {
		return gpu.MemoryUse{}, err
	}
	return gpu.MemoryUse{TotalBytes: memory.Total, UsedBytes: memory.Used, FreeBytes: memory.Free}, nil
}

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
