package devmgr

import (
	"sync"
	"sync/atomic"
	"time"
)

// freeSignal lets a thread sleep until somebody frees memory. It counts frees, so that a free between a failed
// allocation and the wait is never missed: wait returns at once if the count has moved on.
type freeSignal struct {
	count   atomic.Uint64
	waiting atomic.Int32

	mu sync.Mutex
	ch chan struct{} // guarded by mu; closed by the next wake; nil while nobody waits
}

// freed counts one free, or the end of the pool, and wakes whoever waits. With nobody waiting it is two atomic operations.
func (s *freeSignal) freed() {
	s.count.Add(1)
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

// wait returns when the count is no longer seen, or after timeout.
func (s *freeSignal) wait(seen uint64, timeout time.Duration) {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	s.mu.Lock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	ch := s.ch
	s.mu.Unlock()
	// After the channel is there: a free from here on either moves the count or closes it.
	if s.count.Load() != seen {
		return
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-ch:
	case <-timer.C:
	}
}
