// SPDX-License-Identifier: Apache-2.0

package devmgr

import "gpuconf/gocore/tf/config"

// InForce is the limit of all pools of a GPU together.
type InForce struct {
	Bytes uint64 // the sum of the limits of the pools; before they are built, of the limits that are set; 0: none
	Known bool   // whether Bytes does not depend on what memory is free when the pools are built
	Why   string // why it is a part of GPUCONF_LIMIT, as the end of a sentence, or ""
}

// InForce returns the limit that holds on the physical device at index, or will hold once the pools are built with env.
// It uses no GPU.
func (m *Manager) InForce(index int, env config.Env) (InForce, error) {
	device, ok := m.Details(index)
	if !ok {
		return InForce{}, nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return InForce{}, errClosed()
	}
	ceiling, err := env.Ceiling(device.Ordinal, len(m.listed))
	if err != nil {
		return InForce{}, err
	}
	inForce := InForce{Why: ceiling.Why()}
	for _, p := range m.gpus {
		if p.device.Ordinal == device.Ordinal {
			inForce.Bytes += p.limitBytes
			inForce.Known = inForce.Known || p.limited || ceiling.Set
		}
	}
	if inForce.Bytes > 0 {
		return inForce, nil
	}
	limits := m.state.Limits(index)
	for _, limit := range limits {
		limit, _ = ceiling.Lower("", limit, inForce.Bytes)
		inForce.Bytes, inForce.Known = inForce.Bytes+limit, true
	}
	if len(limits) == 0 && ceiling.Set && ceiling.Bytes <= device.TotalBytes {
		inForce.Bytes, inForce.Known = ceiling.Bytes, true
	}
	return inForce, nil
}
