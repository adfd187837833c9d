package devmgr

import (
	"sync"
	"sync/atomic"
	"time"
)

// freeSignal lets a thread sleep until somebody frees memory. Frees are counted, so that one between a failed
// allocation and the wait is never missed: wait returns at once if the count has moved on. It is the allocator that counts, under the
// lock that it needs anyway: a free after the look at the count comes after waiting was raised, too.
type freeSignal struct {
	waiting atomic.Int32

	mu sync.Mutex
	ch chan struct{} // guarded by mu; closed by the next wake; nil while nobody waits
}

// freed wakes whoever waits for a free that the count already tells of. With nobody waiting it is a load.
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

// wait returns when the count is no longer seen, or after timeout.
func (s *freeSignal) wait(count func() uint64, seen uint64, timeout time.Duration) {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	s.mu.Lock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	ch := s.ch
	s.mu.Unlock()
	// After the channel is there: a free from here on either moves the count or closes it.
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
