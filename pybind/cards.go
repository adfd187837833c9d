// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
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
