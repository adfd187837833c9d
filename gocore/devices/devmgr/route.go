// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// routeLocked returns the pool that serves an allocation on a CUDA ordinal: the scope's, a number, if it is on that
// ordinal; else the one that the stream belongs to; else the ordinal's first.
func (m *Manager) routeLocked(ordinal, scope int, stream gpu.Stream) (*pool, error) {
	if p := m.routed(m.gpus, ordinal, scope, stream); p != nil {
		return p, nil
	}
	if m.closed {
		return nil, errClosed()
	}
	return nil, status.Errorf(status.InvalidArgument, "CUDA device %d has no logical GPU: it does not exist, is not "+
		"visible, or gpuconf is not initialized yet (call gpuconf.config.list_logical_devices())", ordinal)
}

// routed returns the pool for routeLocked, or nil.
func (m *Manager) routed(pools []*pool, ordinal, scope int, stream gpu.Stream) *pool {
	if scope >= 0 && scope < len(pools) && pools[scope].device.Ordinal == ordinal {
		return pools[scope]
	}
	if p := m.streams.find(stream, ordinal); p != nil {
		return p
	}
	return firstOf(pools, ordinal)
}

// firstLocked returns the first logical GPU of an ordinal, or nil.
func (m *Manager) firstLocked(ordinal int) *pool { return firstOf(m.gpus, ordinal) }

func firstOf(pools []*pool, ordinal int) *pool {
	for _, p := range pools {
		if p.device.Ordinal == ordinal {
			return p
		}
	}
	return nil
}
