// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/models"
	"gpuconf/pybind/process"
)

// Cards returns every card of the machine as an object, without CUDA: see python/gpuconf/machine/cards.py.
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
	cards := []map[string]any{}
	for _, card := range s.Cards {
		cards = append(cards, encodeCard(card))
	}
	return encode(map[string]any{
		"simulated": orNull(s.Spec, ""),
		"why_none":  orNull(s.WhyNone, ""),
		"driver":    orNull(s.System.DriverVersion, ""),
		"cuda":      orNull([2]int{s.System.CUDAMajor, s.System.CUDAMinor}, [2]int{}),
		"host_pids": s.System.HostPIDs,
		"cards":     cards,
	})
}

func encodeCard(c process.CardSurvey) map[string]any {
	processes, instances := []map[string]any{}, []map[string]any{}
	for _, p := range c.Processes {
		one := map[string]any{"pid": p.PID, "bytes": nil, "instance": nil}
		if p.BytesKnown {
			one["bytes"] = p.UsedBytes
		}
		for _, instance := range c.Instances {
			if instance.GPUInstanceID == p.GPUInstanceID && instance.ComputeInstanceID == p.ComputeInstanceID {
				one["instance"] = instance.UUID
			}
		}
		processes = append(processes, one)
	}
	for _, instance := range c.Instances {
		memory := encodeAmounts(instance.Memory, gpu.Dedicated)
		instances = append(instances, map[string]any{"uuid": instance.UUID, "name": instance.Name, "memory": memory})
	}
	return map[string]any{
		"index": c.Index, "uuid": c.UUID, "name": c.Name, "pci_bus_id": c.PCIBusID,
		"compute_capability": [2]int{c.ComputeMajor, c.ComputeMinor},
		"mig": [...]string{gpu.MIGUnknown: "unknown", gpu.MIGAbsent: "none", gpu.MIGOff: "off",
			gpu.MIGOn: "on"}[c.MIG],
		"memory":    encodeAmounts(c.Memory, c.MemoryKind),
		"processes": processes, "processes_error": orNull(c.ProcessesError, ""),
		"instances": instances, "errors": append([]string{}, c.Errors...),
	}
}

func encodeAmounts(a process.Amounts, kind gpu.MemoryKind) map[string]any {
	return map[string]any{
		"kind": kind.String(), "total": a.TotalBytes, "used": a.UsedBytes, "free": a.FreeBytes,
		"source": orNull(a.Source, ""),
	}
}

// Models returns the GPUs that can be simulated: [[name, product, bytes, kind of memory, [major, minor]], ...].
func Models() (catalogue string, err error) {
	defer process.Gate(&err)
	list := [][]any{}
	for _, m := range models.Models() {
		list = append(list, []any{m.Name, m.Product, m.MemoryBytes, m.MemoryKind().String(),
			[2]int{m.ComputeMajor, m.ComputeMinor}})
	}
	return encode(list)
}
