// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/nvml"
	"gpuconf/gocore/tf/config"
)

// Identity is one GPU that the process sees, with all its names.
type Identity struct {
	Device    gpu.Device // as CUDA describes it
	Physical  string     // "/physical_device:GPU:0"; "" if TensorFlow's rules exclude it as too weak
	NVMLIndex int        // its index in nvidia-smi; -1 if unknown
}

// Identities returns the GPUs that the process sees, by CUDA ordinal. NVML has its own order of GPUs, so they are
// matched by UUID, else by PCI bus id, never by index. No context is created.
func (p *State) Identities() ([]Identity, error) {
	m, err := p.Manager()
	if err != nil {
		return nil, err
	}
	devices, physical, err := m.Found()
	if err != nil {
		return nil, err
	}
	list := make([]Identity, len(devices))
	for i, d := range devices {
		list[i] = Identity{Device: d, Physical: physical[i], NVMLIndex: -1}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spec == "" && len(list) > 0 {
		p.numberLocked(list)
	}
	return list, nil
}

// Simulated reports whether the listed devices are simulated.
func (p *State) Simulated() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spec != ""
}

// numberLocked sets the NVML indices. If NVML is not available they stay unknown, and a notice says why.
func (p *State) numberLocked(list []Identity) {
	cards, err := listCards()
	if err != nil {
		p.notices = append(p.notices, config.Notice{Level: "info", Text: fmt.Sprintf("no NVML: %v", err)})
		return
	}
	for i := range list {
		list[i].NVMLIndex = cardIndex(cards, list[i].Device)
	}
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
