package sim

import "gpuconf/gocore/gpu"

// Steppable lists the streams of a card whose next piece of work could run now, default streams first, else by number. A
// destroyed stream counts while it has work. It is meant for Options.Stepped.
func (m *Machine) Steppable(ordinal int) []gpu.Stream {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return nil
	}
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	var numbers []gpu.Stream
	for s := range m.queues.of(c) {
		if m.queues.steppable(s) {
			numbers = append(numbers, s.number)
		}
	}
	return numbers
}

// Step does the next piece of work of a stream, if it could run now. A machine that is not stepped has
// goroutines for that: ErrorNotPermitted.
func (m *Machine) Step(ordinal int, number gpu.Stream) (ran bool, err error) {
	if !m.queues.stepped {
		return false, gpu.ErrorNotPermitted
	}
	s, err := m.stepped(ordinal, number)
	if err != nil {
		return false, err
	}
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	if !m.queues.steppable(s) {
		return false, nil
	}
	m.perform(s.queue[0])
	return true, nil
}

// stepped finds a stream, be it destroyed.
func (m *Machine) stepped(ordinal int, number gpu.Stream) (*stream, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return nil, err
	}
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	if number == gpu.StreamLegacy {
		number = gpu.StreamNull
	}
	for s := range m.queues.of(c) {
		if s.number == number {
			return s, nil
		}
	}
	return nil, handleError("stream", uint64(number))
}

func (q *queues) steppable(s *stream) bool { return len(s.queue) > 0 && q.ready(s.queue[0]) }

// advance does one piece of work that w, which is not done, waits for in the end. Of a word it is not known who writes it:
// then any work will do. It is false when there is none. q.mu is held.
func (m *Machine) advance(w *work) bool {
	q := m.queues
	for {
		head := w.stream.queue[0]
		if head.stream.running {
			q.progress.Wait()
			return true
		}
		if q.ready(head) {
			m.perform(head)
			return true
		}
		if w = q.obstacle(head); w == nil {
			return m.advanceAny()
		}
	}
}

func (m *Machine) advanceAny() bool {
	for _, c := range m.cards {
		if c.legacy == nil {
			continue
		}
		for s := range m.queues.of(c) {
			if m.queues.steppable(s) {
				m.perform(s.queue[0])
				return true
			}
		}
	}
	return false
}
