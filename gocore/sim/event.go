// SPDX-License-Identifier: Apache-2.0

package sim

import "gpuconf/gocore/gpu"

// event is a mark in a stream. queues.mu guards it.
type event struct {
	card *card
	mark *work // nil before the first record
}

// done reports whether the work that the event marks is done.
func (e *event) done() bool { return e.mark == nil || e.mark.done }

// findEvent returns the event with a number. q.mu is held.
func (q *queues) findEvent(number gpu.Event) (*event, error) {
	if e := at(q.events, uint64(number), firstEvent); e != nil {
		return e, nil
	}
	return nil, handleError("event", uint64(number))
}

// EventCreate creates an event.
func (m *Machine) EventCreate(ordinal int) (gpu.Event, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return 0, err
	}
	q := m.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	var index int
	q.events, index = put(q.events, &event{card: c})
	return firstEvent + gpu.Event(index), nil
}

// EventDestroy destroys an event. Streams that wait for the work it marks keep waiting.
func (m *Machine) EventDestroy(ordinal int, number gpu.Event) error {
	return m.withEvent(ordinal, number, func(*event) error { m.queues.events[number-firstEvent] = nil; return nil })
}

// EventQuery reports whether the work that an event marks is done.
func (m *Machine) EventQuery(ordinal int, number gpu.Event) (done bool, err error) {
	err = m.withEvent(ordinal, number, func(e *event) error { done = e.done(); return nil })
	return done, err
}

// EventSynchronize waits for the work that an event marks.
func (m *Machine) EventSynchronize(ordinal int, number gpu.Event) error {
	var mark *work
	err := m.withEvent(ordinal, number, func(e *event) error { mark = e.mark; return nil })
	if err != nil || mark == nil {
		return err
	}
	return m.await(mark)
}

// EventRecord makes an event mark the work that is queued in a stream now.
func (m *Machine) EventRecord(ordinal int, event gpu.Event, number gpu.Stream) error {
	return m.withStream(ordinal, number, func(c *card, s *stream) error {
		e, err := m.queues.findEvent(event)
		if err != nil {
			return err
		}
		if e.card != c {
			return c.errorf(gpu.ErrorInvalidHandle, "event %#x is another GPU's", uint64(event))
		}
		e.mark = m.enqueue(s, &work{})
		return nil
	})
}

// StreamWaitEvent makes later work of a stream wait for the work that the event marks now.
func (m *Machine) StreamWaitEvent(ordinal int, number gpu.Stream, event gpu.Event) error {
	return m.withStream(ordinal, number, func(_ *card, s *stream) error {
		e, err := m.queues.findEvent(event)
		if err != nil {
			return err
		}
		if !e.done() {
			m.enqueue(s, &work{after: e.mark})
		}
		return nil
	})
}

// withEvent calls look with an event of a card, with the locks held.
func (m *Machine) withEvent(ordinal int, number gpu.Event, look func(*event) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return err
	}
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	e, err := m.queues.findEvent(number)
	if err != nil {
		return err
	}
	if e.card != c {
		return c.errorf(gpu.ErrorInvalidHandle, "event %#x is another GPU's", uint64(number))
	}
	return look(e)
}
