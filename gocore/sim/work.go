// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"gpuconf/gocore/gpu"
)

// work is one entry of a stream's queue. queues.mu guards it; fields set before it is queued never change.
type work struct {
	stream *stream
	seq    uint64 // orders entries by when they were queued, across the machine

	after *work        // must be done first, in any stream; nil: nothing
	until func() bool  // must be true first; nil: nothing. Called under queues.mu alone
	run   func() error // Machine.mu is held for reading; nil: nothing to do

	done    bool
	dropped gpu.Result // the error if its context ended before it ran; else 0
}

// enqueue appends to a stream. Machine.mu is held for reading, and queues.mu.
func (m *Machine) enqueue(s *stream, w *work) *work {
	q := m.queues
	q.lastSeq++
	w.stream, w.seq = s, q.lastSeq
	s.queue = append(s.queue, w)
	if !s.worker {
		s.worker = true
		q.workers.Go(func() { m.workThrough(s) })
	}
	return w
}

// workThrough is a stream's goroutine. It ends when no work is left.
func (m *Machine) workThrough(s *stream) {
	q := m.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	nap := leastNap
	for len(s.queue) > 0 {
		w := s.queue[0]
		switch {
		case q.ready(w):
			m.perform(w)
			nap = leastNap
		case w.until != nil:
			// The host may also write the word, without notification.
			alarm := time.AfterFunc(nap, q.wake)
			q.progress.Wait()
			alarm.Stop()
			nap = min(2*nap, longestNap)
		default:
			q.progress.Wait()
		}
	}
	s.worker = false
}

// wake makes all waiters check again. It takes the lock, so a waiter that is about to wait does not miss it.
func (q *queues) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.progress.Broadcast()
}

const leastNap, longestNap = 10 * time.Microsecond, time.Millisecond

// ready reports whether w, at the head of its queue, may run. After a fault all work may: it does nothing. q.mu is held.
func (q *queues) ready(w *work) bool {
	if w.stream.running {
		return false
	}
	return w.stream.card.fault.Load() != nil || q.obstacle(w) == nil && (w.until == nil || w.until())
}

// obstacle returns a piece of work that must be done before w, which is at the head of its queue, or nil. The obstacle was queued
// before w, so waits never form a cycle. q.mu is held.
func (q *queues) obstacle(w *work) *work {
	s := w.stream
	c := s.card
	if w.after != nil && !w.after.done {
		return w.after
	}
	if s.blocking && earlier(c.legacy, w) {
		return c.legacy.queue[0]
	}
	if s != c.legacy {
		return nil
	}
	for other := range q.of(c) {
		if other.blocking && earlier(other, w) {
			return other.queue[0]
		}
	}
	return nil
}

// earlier reports whether a stream still has work that was queued before w.
func earlier(s *stream, w *work) bool { return len(s.queue) > 0 && s.queue[0].seq < w.seq }

// quiet reports whether the legacy stream has nothing to wait for. q.mu is held.
func (q *queues) quiet(c *card) bool {
	for s := range q.of(c) {
		if (s.blocking || s == c.legacy) && len(s.queue) > 0 {
			return false
		}
	}
	return true
}

// perform executes the head of a queue, which is ready. q.mu is held on entry and return, not in between.
func (m *Machine) perform(w *work) {
	q, s := m.queues, w.stream
	s.running = true
	q.mu.Unlock()
	if q.before != nil {
		q.before(s.card.description.Ordinal, s.number)
	}
	m.do(w)
	q.mu.Lock()
	s.running = false
	if w.dropped == 0 {
		w.done = true
	}
	if !s.ended {
		s.queue = s.queue[1:]
		q.release(s)
	}
	q.progress.Broadcast()
}

// do runs a piece of work, unless its context has ended or is broken. A failure breaks the context.
func (m *Machine) do(w *work) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := w.stream.card
	if w.run == nil || m.dropped(w) || c.fault.Load() != nil {
		return
	}
	if err := w.run(); err != nil {
		fault := c.errorf(gpu.ErrorIllegalAddress, "queued work uses memory that was freed before it ran (%v)", err)
		c.fault.CompareAndSwap(nil, &fault)
	}
}

func (m *Machine) dropped(w *work) bool {
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	return w.dropped != 0
}

// await waits until w is done, and returns an error if the context broke or ended meanwhile. No lock is held.
func (m *Machine) await(w *work) error {
	q, c := m.queues, w.stream.card
	q.mu.Lock()
	defer q.mu.Unlock()
	for !w.done {
		q.progress.Wait()
	}
	if w.dropped != 0 {
		return c.errorf(w.dropped, "the context ended during the wait")
	}
	return c.faulted()
}

// faulted returns the error of a broken context, else nil.
func (c *card) faulted() error {
	if fault := c.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

func handleError(kind string, number uint64) error {
	return fmt.Errorf("unknown simulated %s %#x: %w", kind, number, gpu.ErrorInvalidHandle)
}
