// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/cuda"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/machine/nvml"
	"gpuconf/gocore/machine/visible"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/wire"
)

// The keys under which Python passes the path of its interpreter, and where the loader looks for libraries.
const (
	python      = "GPUCONF_PYTHON"
	libraryPath = "LD_LIBRARY_PATH"
)

const noneFound = "the NVIDIA driver finds none"

// machine is the real or simulated machine of a process.
type machine struct {
	driver  gpu.Driver // nil without a working CUDA driver
	spec    string     // canonical; "" if not simulated
	notices []config.Notice
	whyNone string // why it would have no GPU, as the end of a sentence; also set if it has some
}

// openMachine returns the machine to run on: the one requested by a call, else that of GPUCONF_SIMULATE, else the real
// one. CUDA_VISIBLE_DEVICES filters the GPUs of a simulated machine as it does real ones.
func openMachine(asked string, env config.Env) (machine, error) {
	if asked == "" {
		asked = env["GPUCONF_SIMULATE"]
	}
	if asked == "" {
		return openCUDA(env)
	}
	parsed, err := models.ParseSpec(asked)
	if err != nil {
		return machine{}, err
	}
	m := machine{spec: parsed.String(), whyNone: noneShown(env, "")}
	indices, said := visible.Select(visible.Env{VisibleDevices: lookup(env, "CUDA_VISIBLE_DEVICES"),
		DeviceOrder: lookup(env, "CUDA_DEVICE_ORDER")}, parsed.Identities())
	for _, text := range said {
		m.notices = append(m.notices, config.Notice{Level: "warning", Text: text})
		m.whyNone = text // the last one is about CUDA_VISIBLE_DEVICES
	}
	options := cuda.SimulatedOptions{OfProcess: true, Version: parsed.Driver(),
		SharedCards: env["GPUCONF_SIMULATED_CARDS"]}
	var cards []cuda.SimulatedCard
	for _, slot := range indices {
		card := parsed.Cards[slot]
		cards = append(cards, cuda.SimulatedCard{Model: card.Model.Place(), Slot: slot, MemoryBytes: card.MemoryBytes,
			Profile: card.Profile.Words, GreatestPriority: card.Model.GreatestPriority})
	}
	closeSurveyor()
	m.driver, err = cuda.OpenSimulator(cuda.GuardedSimulator(env["GPUCONF_GUARD"]), cards, options)
	return m, err
}

// openCUDA opens the real driver. A machine without a driver has no GPUs, which is not an error: a notice says what is
// missing.
func openCUDA(env config.Env) (machine, error) {
	if cuda.HasNoDevice(env[python], env[libraryPath], lookup(env, "CUDA_VISIBLE_DEVICES")) {
		return machine{whyNone: noneShown(env, noneFound)}, nil
	}
	driver, err := cuda.Open()
	if status.CodeOf(err) == status.Unavailable {
		return machine{notices: []config.Notice{{Level: "info", Text: fmt.Sprintf("no GPUs: %v", err)}},
			whyNone: short(err.Error())}, nil
	}
	return machine{driver: driver, whyNone: noneShown(env, noneFound)}, err
}

// short returns the first sentence of a text, and of a list in parentheses only the first item.
func short(text string) string {
	text, _, _ = strings.Cut(text, ". ")
	if first, _, several := strings.Cut(text, "; "); several && strings.Contains(first, "(") {
		return first + ")"
	}
	return text
}

func noneShown(env config.Env, otherwise string) string {
	if value, set := env["CUDA_VISIBLE_DEVICES"]; set {
		return fmt.Sprintf("CUDA_VISIBLE_DEVICES=%q shows none", value)
	}
	return otherwise
}

func lookup(env config.Env, name string) *string {
	value, ok := env[name]
	if !ok {
		return nil
	}
	return &value
}

// Identities returns the GPUs that the process sees, by CUDA ordinal. NVML has its own order of GPUs, so they are
// matched by UUID, else by PCI bus id, never by index: if NVML is not available, the indices stay unknown, and a notice
// says why. No context is created.
func (p *State) Identities() ([]wire.VisibleDevice, error) {
	m, err := p.Manager()
	if err != nil {
		return nil, err
	}
	devices, physical, err := m.Found()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	source := "CUDA"
	var cards []gpu.Card
	if p.spec != "" {
		source = "simulation"
	} else if len(devices) > 0 {
		if cards, err = listCards(); err != nil {
			cards = nil
			p.notices = append(p.notices, config.Notice{Level: "info", Text: fmt.Sprintf("no NVML: %v", err)})
		}
	}
	list := make([]wire.VisibleDevice, len(devices))
	for i, d := range devices {
		list[i] = wire.VisibleDevice{CUDAOrdinal: d.Ordinal, PhysicalDevice: wire.Maybe(physical[i], ""), Name: d.Name,
			UUID: d.UUID, PCIBusID: d.PCIBusID, NVMLIndex: wire.Maybe(cardIndex(cards, d), -1),
			ComputeCapability: [2]int{d.ComputeMajor, d.ComputeMinor}, TotalMemory: d.TotalBytes,
			MemoryKind: d.MemoryKind.String(), MemorySource: source}
	}
	return list, nil
}

func listCards() (cards []gpu.Card, err error) {
	monitor, err := nvml.Open()
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := monitor.Close(); err == nil && closeErr != nil {
			err = status.Errorf(status.Unknown, "closing NVML: %w", closeErr)
		}
	}()
	return monitor.Cards()
}

// cardIndex finds a device among NVML's cards: by its UUID or that of a MIG instance, else by its PCI bus id.
func cardIndex(cards []gpu.Card, d gpu.Device) int {
	for _, card := range cards {
		if card.UUID == d.UUID {
			return card.Index
		}
		for _, instance := range card.Instances {
			if instance.UUID == d.UUID {
				return card.Index
			}
		}
	}
	for _, card := range cards {
		if card.PCIBusID != "" && strings.EqualFold(card.PCIBusID, d.PCIBusID) {
			return card.Index
		}
	}
	return -1
}
