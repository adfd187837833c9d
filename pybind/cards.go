// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// Cards returns every card of the machine, without CUDA: a wire.Survey.
func Cards(env string) (survey string, err error) {
	defer process.Gate(&err)
	variables, err := decodeEnv(env)
	if err != nil {
		return "", err
	}
	s, err := process.Shared().Survey(variables)
	if err != nil {
		return "", err
	}
	message := wire.Survey{Simulated: wire.Maybe(s.Spec, ""), WhyNone: wire.Maybe(s.WhyNone, ""),
		Driver:   wire.Maybe(s.System.DriverVersion, ""),
		CUDA:     wire.Maybe([2]int{s.System.CUDAMajor, s.System.CUDAMinor}, [2]int{}),
		HostPIDs: s.System.HostPIDs}
	for _, card := range s.Cards {
		message.Cards = append(message.Cards, surveyed(card))
	}
	return wire.Encode(message)
}

func surveyed(c process.CardSurvey) wire.Card {
	card := wire.Card{Index: c.Index, UUID: c.UUID, Name: c.Name, PCIBusID: c.PCIBusID,
		ComputeCapability: [2]int{c.ComputeMajor, c.ComputeMinor},
		MIG: [...]string{gpu.MIGUnknown: "unknown", gpu.MIGAbsent: "none", gpu.MIGOff: "off",
			gpu.MIGOn: "on"}[c.MIG],
		Memory: amountsOf(c.Memory, c.MemoryKind), ProcessesError: wire.Maybe(c.ProcessesError, ""), Errors: c.Errors}
	for _, p := range c.Processes {
		one := wire.CardProcess{PID: p.PID}
		if p.BytesKnown {
			one.Bytes = &p.UsedBytes
		}
		for _, instance := range c.Instances {
			if instance.GPUInstanceID == p.GPUInstanceID && instance.ComputeInstanceID == p.ComputeInstanceID {
				one.Instance = &instance.UUID
			}
		}
		card.Processes = append(card.Processes, one)
	}
	for _, instance := range c.Instances {
		memory := amountsOf(instance.Memory, gpu.Dedicated)
		card.Instances = append(card.Instances,
			wire.CardInstance{UUID: instance.UUID, Name: instance.Name, Memory: memory})
	}
	return card
}

func amountsOf(a process.Amounts, kind gpu.MemoryKind) wire.CardMemory {
	return wire.CardMemory{Kind: kind.String(), Total: a.TotalBytes, Used: a.UsedBytes, Free: a.FreeBytes,
		Source: wire.Maybe(a.Source, "")}
}

// Models returns the GPUs that can be simulated, a list of wire.SimulatedModel.
func Models() (catalogue string, err error) {
	defer process.Gate(&err)
	var list []wire.SimulatedModel
	for _, m := range models.Models() {
		list = append(list, wire.SimulatedModel{Name: m.Name, Product: m.Product, Memory: m.MemoryBytes,
			MemoryKind: m.MemoryKind().String(), ComputeCapability: [2]int{m.ComputeMajor, m.ComputeMinor}})
	}
	return wire.Encode(list)
}

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
