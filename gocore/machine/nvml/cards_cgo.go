// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"errors"
	"fmt"
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
	if _, ret := device.GetMemoryInfo(); Result(ret) == ErrorNotSupported {
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
