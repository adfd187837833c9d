// SPDX-License-Identifier: Apache-2.0

package devmgr

import "gpuconf/gocore/config"

// InForce is the limit of all pools of a GPU together.
type InForce struct {
	Bytes uint64
	Known bool   // a limit holds that does not depend on what memory is free when the pools are built
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
	found := InForce{Why: ceiling.Why()}
	for _, p := range m.gpus {
		if p.device.Ordinal == device.Ordinal {
			found.Bytes += p.limitBytes
			found.Known = found.Known || p.limited || ceiling.Set
		}
	}
	if found.Bytes > 0 {
		return found, nil
	}
	limits := m.state.Limits(index)
	for _, limit := range limits {
		limit, _ = ceiling.Lower("", limit, found.Bytes)
		found.Bytes, found.Known = found.Bytes+limit, true
	}
	if len(limits) == 0 && ceiling.Set && ceiling.Bytes <= device.TotalBytes {
		found.Bytes, found.Known = ceiling.Bytes, true
	}
	return found, nil
}
