// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"fmt"

	"gpuconf/gocore/pool/figures"
	"gpuconf/gocore/tf/config"
)

// Publisher is where other processes read the figures of this process's pools.
type Publisher interface {
	// SetPools returns the place for each pool's figures, nil if there is no more room, and ends the earlier ones.
	SetPools(pools []figures.Place) ([]*figures.Pool, error)
}

// Publish publishes the figures of all logical GPUs, including those of later layouts; nil ends it.
func (m *Manager) Publish(to Publisher) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	m.publisher = to
	return m.publishLocked(m.gpus)
}

// publishNewLocked adds the pools of a new layout.
func (m *Manager) publishNewLocked(pools []*pool) {
	if err := m.publishLocked(pools); err != nil {
		m.notice(
			config.Notice{Level: "warning",
				Text: fmt.Sprintf("other processes do not see this process's use of GPUs: %v", err)})
	}
}

func (m *Manager) publishLocked(pools []*pool) error {
	for _, p := range pools {
		p.bfc.Publish(nil) // SetPools may reuse the earlier places
	}
	if m.publisher == nil {
		return nil
	}
	named := make([]figures.Place, len(pools))
	for i, p := range pools {
		named[i] = figures.Place{UUID: p.device.UUID, Number: p.number}
	}
	places, err := m.publisher.SetPools(named)
	if err != nil {
		return err
	}
	for i, p := range pools {
		p.bfc.Publish(places[i])
	}
	return nil
}
