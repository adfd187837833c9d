// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
)

// FailAllocation makes the n-th allocation from now on fail with an injected out-of-memory error. Allocations of all
// threads on all logical GPUs count, also on those of later layouts, for every library; those of 0 bytes do not. It
// replaces an earlier call. 0 ends the counting, as closing the Manager does.
func (m *Manager) FailAllocation(n uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	m.failure = nil
	if n > 0 {
		m.failure = bfc.NewFailure(n)
	}
	m.injectLocked(m.gpus)
	return nil
}

// CountedAllocations returns the number of allocations since FailAllocation, up to and including the one that failed.
func (m *Manager) CountedAllocations() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.failure == nil {
		return 0
	}
	return m.failure.Counted()
}

// CountForeign counts an allocation of a library that has an allocator of its own. It returns the out-of-memory error
// of the one that must fail.
func (m *Manager) CountForeign(bytes uint64) error {
	m.mu.RLock()
	failure := m.failure
	m.mu.RUnlock()
	if failure == nil || !failure.Due() {
		return nil
	}
	return status.Errorf(status.ResourceExhausted, "Tried to allocate %s: out of memory, an injected failure, which "+
		"a test requested", human.Exact(bytes))
}

func (m *Manager) injectLocked(pools []*pool) {
	for _, p := range pools {
		p.bfc.Inject(m.failure)
	}
}
