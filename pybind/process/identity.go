package process

import (
	"fmt"
	"strings"

	"gpuconf/gocore/config"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/nvml"
	"gpuconf/gocore/status"
)

// Identity is one GPU that the process sees, by every name it has.
type Identity struct {
	Device    gpu.Device
	Physical  string // "/physical_device:GPU:0"; "" where TensorFlow's rules leave it out as too weak
	NVMLIndex int    // what nvidia-smi calls it; -1 where NVML doesn't tell
}

// Identities lists the GPUs that the process sees, by CUDA ordinal. NVML counts GPUs in its own order, so the two are brought
// together by UUID, else by PCI bus id, never by number. No context is created.
func (p *State) Identities() ([]Identity, error) {
	m, err := p.Manager()
	if err != nil {
		return nil, err
	}
	found, physical, err := m.Found()
	if err != nil {
		return nil, err
	}
	list := make([]Identity, len(found))
	for i, d := range found {
		list[i] = Identity{Device: d, Physical: physical[i], NVMLIndex: -1}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spec == "" && len(list) > 0 {
		p.numberLocked(list)
	}
	return list, nil
}

// numberLocked asks NVML for its numbers. Without it there are none, which a notice explains.
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

// cardIndex finds a device among NVML's cards: by its UUID or that of a MIG instance, else by its place on the bus.
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
