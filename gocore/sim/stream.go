// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"iter"
	"sync"

	"gpuconf/gocore/gpu"
)

// queues is the background work of a machine: its streams, their work, and events.
//
// A stream that has work has a goroutine, which ends when the work does.
type queues struct {
	before  func(ordinal int, stream gpu.Stream) // Options.BeforeWork; never changes
	workers sync.WaitGroup                       // the goroutines

	mu       sync.Mutex // after Machine.mu, where both are held
	progress *sync.Cond // signaled when work is done or a stream ends
	streams  []*stream  // by number; nil where a number is free. Guarded by mu, as is all below and in a stream
	events   []*event   // by number, likewise
	lastSeq  uint64
	lastID   uint64
}

// The lowest numbers of streams and events; lower numbers are CUDA's own streams, or invalid.
const (
	firstStream = 0x100
	firstEvent  = 0x200
)

// stream is one queue.
type stream struct {
	card     *card
	number   gpu.Stream
	id       uint64
	priority int
	blocking bool // it and the card's legacy stream wait for each other

	queue     []*work // not done yet, in order
	running   bool    // a goroutine is executing queue[0]
	worker    bool    // a goroutine runs its work
	destroyed bool    // its number is no longer valid; its queue still runs
	ended     bool    // its context has ended
}

func newQueues(before func(int, gpu.Stream)) *queues {
	q := &queues{before: before}
	q.progress = sync.NewCond(&q.mu)
	return q
}

// openContext creates a card's default streams. Machine.mu is held.
func (q *queues) openContext(c *card) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.legacy = q.newStream(c, gpu.StreamNull, 0, false)
	c.perThread = q.newStream(c, gpu.StreamPerThread, 0, true)
}

// closeContext ends all streams and events of a card, with their queued work; waiters get the error why. Machine.mu is held, so
// nothing runs.
func (q *queues) closeContext(c *card, why gpu.Result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.legacy == nil {
		return
	}
	for s := range q.of(c) {
		q.end(s, why)
	}
	for i, e := range q.events {
		if e != nil && e.card == c {
			q.events[i] = nil
		}
	}
	c.legacy, c.perThread = nil, nil
	c.fault.Store(nil)
	q.progress.Broadcast()
}

// end drops a stream's work and wakes its waiters. q.mu is held.
func (q *queues) end(s *stream, why gpu.Result) {
	for _, w := range s.queue {
		w.dropped = why
		w.done = true
	}
	s.queue, s.ended, s.destroyed = nil, true, true
	q.release(s)
}

// release makes the number of a destroyed stream free once its work is done. q.mu is held.
func (q *queues) release(s *stream) {
	if s.destroyed && len(s.queue) == 0 && s.number >= firstStream {
		q.streams[s.number-firstStream] = nil
	}
}

// of iterates over the streams of a card that has a context, default ones first, then by number; destroyed ones too while they have
// work. q.mu is held.
func (q *queues) of(c *card) iter.Seq[*stream] {
	return func(yield func(*stream) bool) {
		if !yield(c.legacy) || !yield(c.perThread) {
			return
		}
		for _, s := range q.streams {
			if s != nil && s.card == c && !yield(s) {
				return
			}
		}
	}
}

func (q *queues) newStream(c *card, number gpu.Stream, priority int, blocking bool) *stream {
	q.lastID++
	return &stream{card: c, number: number, id: q.lastID, priority: priority, blocking: blocking}
}

// find returns the stream with a number. q.mu is held.
func (q *queues) find(c *card, number gpu.Stream) (*stream, error) {
	switch number {
	case gpu.StreamNull, gpu.StreamLegacy:
		return c.legacy, nil
	case gpu.StreamPerThread:
		return c.perThread, nil
	}
	if s := at(q.streams, uint64(number), firstStream); s != nil && s.card == c && !s.destroyed {
		return s, nil
	}
	return nil, c.errorf(gpu.ErrorInvalidHandle, "unknown stream %#x", uint64(number))
}

// at returns the entry of a number, or nil.
func at[T any](table []*T, number, first uint64) *T {
	if number < first || number-first >= uint64(len(table)) {
		return nil
	}
	return table[number-first]
}

// put stores a value under the lowest free number.
func put[T any](table []*T, entry *T) (_ []*T, index int) {
	for index = range table {
		if table[index] == nil {
			table[index] = entry
			return table, index
		}
	}
	return append(table, entry), len(table)
}

// StreamCreate creates a stream. Priorities are stored, but have no effect.
func (m *Machine) StreamCreate(ordinal int, flags gpu.StreamFlags, priority int) (gpu.Stream, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return 0, err
	}
	if flags&^gpu.StreamNonBlocking != 0 {
		return 0, c.errorf(gpu.ErrorInvalidValue, "invalid stream flags %#x", uint32(flags))
	}
	priority = min(max(priority, c.description.GreatestPriority), c.description.LeastPriority)
	q := m.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.newStream(c, 0, priority, flags&gpu.StreamNonBlocking == 0)
	var index int
	q.streams, index = put(q.streams, s)
	s.number = firstStream + gpu.Stream(index)
	return s.number, nil
}

// StreamDestroy destroys a stream. Its number can be reused once its work is done.
func (m *Machine) StreamDestroy(ordinal int, number gpu.Stream) error {
	return m.withStream(ordinal, number, func(c *card, s *stream) error {
		if s.number < firstStream {
			return c.errorf(gpu.ErrorInvalidHandle, "a default stream cannot be destroyed")
		}
		s.destroyed = true
		m.queues.release(s)
		return nil
	})
}

// StreamGetID returns a stream's unique id, which is never reused.
func (m *Machine) StreamGetID(ordinal int, number gpu.Stream) (id uint64, err error) {
	err = m.withStream(ordinal, number, func(_ *card, s *stream) error { id = s.id; return nil })
	return id, err
}

// StreamGetPriority returns a stream's priority.
func (m *Machine) StreamGetPriority(ordinal int, number gpu.Stream) (priority int, err error) {
	err = m.withStream(ordinal, number, func(_ *card, s *stream) error { priority = s.priority; return nil })
	return priority, err
}

// StreamQuery reports whether a stream has no work left.
func (m *Machine) StreamQuery(ordinal int, number gpu.Stream) (done bool, err error) {
	err = m.withStream(ordinal, number, func(_ *card, s *stream) error { done = len(s.queue) == 0; return nil })
	return done, err
}

// StreamSynchronize waits for the work queued in a stream.
func (m *Machine) StreamSynchronize(ordinal int, number gpu.Stream) error {
	var last *work
	err := m.withStream(ordinal, number, func(_ *card, s *stream) error {
		if n := len(s.queue); n > 0 {
			last = s.queue[n-1]
		}
		return nil
	})
	if err != nil || last == nil {
		return err
	}
	return m.await(last)
}

// ContextSynchronize waits for the work queued in all streams of a card.
func (m *Machine) ContextSynchronize(ordinal int) error {
	last, err := m.lastOfEach(ordinal)
	for _, w := range last {
		if err == nil {
			err = m.await(w)
		}
	}
	return err
}

func (m *Machine) lastOfEach(ordinal int) (last []*work, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return nil, err
	}
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	for s := range m.queues.of(c) {
		if n := len(s.queue); n > 0 {
			last = append(last, s.queue[n-1])
		}
	}
	return last, nil
}

// StreamGetCaptureInfo returns 0: streams of a Machine cannot be captured.
func (m *Machine) StreamGetCaptureInfo(ordinal int, number gpu.Stream) (capture uint64, err error) {
	return 0, m.withStream(ordinal, number, func(*card, *stream) error { return nil })
}

// StreamGetCaptureLife fails, because there is no capture.
func (m *Machine) StreamGetCaptureLife(ordinal int, number gpu.Stream) (gpu.CaptureLife, error) {
	return nil, m.withStream(ordinal, number, func(c *card, _ *stream) error {
		return c.errorf(gpu.ErrorInvalidValue, "stream %#x is not captured", uint64(number))
	})
}

// withStream calls look with a stream of a card, with the locks held.
func (m *Machine) withStream(ordinal int, number gpu.Stream, look func(*card, *stream) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return err
	}
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	s, err := m.queues.find(c, number)
	if err != nil {
		return err
	}
	return look(c, s)
}
