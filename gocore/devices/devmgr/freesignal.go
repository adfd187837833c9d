// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"sync"
	"sync/atomic"
	"time"
)

// freeSignal lets a thread sleep until memory is freed. Frees are counted, so that one between a failed allocation and
// the wait is never missed: wait returns at once if the count has changed. The allocator counts under its own lock, so
// a free that the check of the count misses happens after waiting was raised, and wakes the waiter.
type freeSignal struct {
	waiting atomic.Int32

	mu sync.Mutex
	ch chan struct{} // guarded by mu; closed by the next wake; nil while no thread waits
}

// freed wakes the waiters, after the free was counted. Without waiters it costs one load.
func (s *freeSignal) freed() {
	if s.waiting.Load() > 0 {
		s.wake()
	}
}

func (s *freeSignal) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// wait returns when the count differs from seen, or after timeout.
func (s *freeSignal) wait(count func() uint64, seen uint64, timeout time.Duration) {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	s.mu.Lock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	ch := s.ch
	s.mu.Unlock()
	// The channel exists: from here on a free either changes the count before this check or closes the channel.
	if count() != seen {
		return
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-ch:
	case <-timer.C:
	}
}
