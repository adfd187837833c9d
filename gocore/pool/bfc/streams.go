// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"errors"
	"math"

	"gpuconf/gocore/base/offheap"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/chunks"
)

// Stream is the number of a stream, a small integer assigned by NewStream. Stream 0 always exists.
type Stream uint32

const (
	noStream    Stream = math.MaxUint32
	clean       Stream = noStream - 1 // in a tag: no queued work touches the memory
	mostStreams        = 1 << 16
)

type streamState uint8

const (
	open    streamState = iota
	ended               // no more work will be queued; queued work may still run
	private             // a capture: no other stream gets its memory, and no mark is queued for it (streams_capture.go)
)

// stream is the allocator's state of one stream. Except for state, marks and queued it is used in shared mode only.
type stream struct {
	state  streamState
	handle uint64 // its name in recordings
	marks  uint64 // number of the last mark that was tried (invariant 15)
	queued uint64 // number of the last one that was queued
	passed uint64 // number of the last one that the device is known to have passed

	bins      *chunks.Bins // the free chunks that it owns; nil before its first allocation
	freeBytes uint64       // the sum of their sizes
	owned     queue        // the same chunks, by mark (invariant 13)
	awaited   queue        // its uses of held chunks, by mark (invariant 14)
	refs      uint64       // invariant 16
	follows   []uint64     // by other stream: the mark that this stream's later work waits for
	refuses   bool         // waiting for it has failed during the current search
	of        Stream       // private: the stream that is captured

	sinceMark uint64 // bytes freed since the last mark was tried
}

// nextMark returns the mark that covers memory freed now. A capture's next mark is never queued.
func (st *stream) nextMark() uint64 {
	if st.state == ended {
		return st.marks // queued by EndStream
	}
	return st.marks + 1
}

// NewStream returns the number of a new stream. It reuses that of an ended stream whose work is all done, if there is
// one. Recordings label the stream's allocations with handle; stream 0 has handle 0.
func (a *Allocator) NewStream(handle uint64) (Stream, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, a.errClosed()
	}
	if a.timeline == nil {
		return 0, status.Errorf(status.Unimplemented, "allocator %s supports only one stream: it has no timeline",
			a.name)
	}
	return a.takeNumberLocked(handle)
}

// takeNumberLocked returns an unused stream number (invariant 16).
func (a *Allocator) takeNumberLocked(handle uint64) (Stream, error) {
	for s := range a.streams {
		if a.drainedLocked(Stream(s)) {
			a.streams[s].state, a.streams[s].follows, a.streams[s].handle = open, nil, handle
			return Stream(s), nil
		}
	}
	if len(a.streams) == mostStreams {
		return 0, status.Errorf(status.ResourceExhausted, "allocator %s already has %d streams; end a stream first",
			a.name, mostStreams)
	}
	a.streams = append(a.streams, stream{handle: handle})
	return Stream(len(a.streams) - 1), nil
}

// drainedLocked reports whether a stream has ended and nothing refers to it any more (invariant 16).
func (a *Allocator) drainedLocked(s Stream) bool {
	if a.streams[s].state != ended {
		return false
	}
	a.reapLocked(s)
	st := &a.streams[s]
	return st.refs == 0 && st.owned.oldest == chunks.None && st.awaited.oldest == chunks.None &&
		max(st.passed, a.timeline.Passed(s)) >= st.queued
}

// EndStream declares that no more work will be queued in a stream. Unless the stream is lasting, it waits for the
// device. Blocks allocated on the stream stay; memory freed on it becomes available to other streams once its work is
// done. If EndStream fails, the stream has not ended.
func (a *Allocator) EndStream(s Stream) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed()
	}
	if err := a.checkStreamLocked(s); err != nil {
		return err
	}
	if s == 0 || a.streams[s].state == private {
		return status.Errorf(status.InvalidArgument, "allocator %s: stream %d cannot be ended", a.name, s)
	}
	if a.only == s { // its memory must be distinguished from that of the next stream
		if err := a.shareLocked(); err != nil {
			return err
		}
	}
	if err := a.markLocked(s); err != nil { // the last chance to queue one (invariant 15)
		return err
	}
	a.streams[s].state = ended
	return nil
}

func (a *Allocator) checkStreamLocked(s Stream) error {
	if int(s) >= len(a.streams) || a.streams[s].state == ended {
		return status.Errorf(status.InvalidArgument, "allocator %s: stream %d is unknown or has ended", a.name, s)
	}
	return nil
}

// unmapShared unmaps the tables of shared mode.
func (a *Allocator) unmapShared() (err error) {
	err = offheap.Unmap(a.tags)
	if a.cleanBins != nil {
		err = errors.Join(err, a.cleanBins.UnmapBeside())
	}
	for _, st := range a.streams {
		if st.bins != nil && st.bins != &a.bins {
			err = errors.Join(err, st.bins.UnmapBeside())
		}
	}
	a.tags, a.cleanBins, a.uses, a.streams, a.shared, a.only = nil, nil, nil, nil, false, noStream
	return err
}

// admitLocked prepares for work on a stream other than the only one so far. The second stream switches to shared
// mode.
func (a *Allocator) admitLocked(s Stream) (err error) {
	if err := a.checkStreamLocked(s); err != nil {
		return err
	}
	if !a.shared {
		if a.only == noStream {
			a.only = s
			a.serveLocked()
			return nil
		}
		if err := a.shareLocked(); err != nil {
			return err
		}
	}
	return a.haveBinsLocked(s)
}

func (a *Allocator) haveBinsLocked(s Stream) (err error) {
	if st := &a.streams[s]; st.bins == nil {
		st.bins, err = a.bins.Beside()
	}
	return err
}

// shareLocked switches to shared mode, permanently. Everything so far belongs to the only stream there was; from here
// on, invariants 13 to 18 hold.
func (a *Allocator) shareLocked() (err error) {
	if err := a.takeSpareLocked(); err != nil {
		return err
	}
	cleanBins, err := a.bins.Beside()
	if err != nil {
		return err
	}
	if a.tags, err = offheap.Map[tag](chunks.TableName, len(a.chunks.Records)); err != nil {
		_ = cleanBins.UnmapBeside() // unmapping a new mapping cannot fail
		return err
	}
	s, st := a.only, &a.streams[a.only]
	a.cleanBins, a.only, a.shared = cleanBins, noStream, true
	a.serveLocked()
	a.uses = append(a.uses, use{}) // record None
	st.bins = &a.bins
	for _, r := range a.regions {
		for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
			a.tags[i] = tag{stream: s}
			if c := &a.chunks.Records[i]; c.Free() {
				a.tags[i].mark = st.nextMark()
				push(&st.owned, a.tags, i)
				st.freeBytes += c.Bytes()
			} else {
				st.refs++
			}
		}
	}
	return nil
}

// markLocked queues a mark, or waits for the device if the stream may have been destroyed.
func (a *Allocator) markLocked(s Stream) error {
	if a.existsLocked(s) {
		return a.queueMarkLocked(s)
	}
	return a.syncAllLocked(s)
}

// existsLocked reports whether a stream cannot have been destroyed: it is lasting, or the current call names it.
func (a *Allocator) existsLocked(s Stream) bool { return s == a.named || a.timeline.Lasting(s) }

// syncAllLocked waits for all work of the device, in place of a mark in stream s. All streams that may have been
// destroyed have passed a mark then. Not while a capture requests memory: the wait would invalidate the capture.
func (a *Allocator) syncAllLocked(s Stream) error {
	if a.named != noStream && a.streams[a.named].state == private {
		return status.Errorf(status.FailedPrecondition, "allocator %s: stream %d may have been destroyed, and a wait "+
			"for the whole device would invalidate the capture: trim the pool before the capture begins", a.name, s)
	}
	if err := a.timeline.SyncAll(); err != nil {
		return status.Errorf(status.Unknown, "allocator %s could not wait for the device in place of stream %d, which "+
			"may have been destroyed: %w", a.name, s, err)
	}
	for other := range a.streams {
		if st := &a.streams[other]; st.state == open && !a.timeline.Lasting(Stream(other)) {
			st.marks++
			st.queued, st.passed, st.sinceMark = st.marks, st.marks, 0
		}
	}
	return nil
}

// queueMarkLocked queues a mark in a stream that exists. Its number is used up even if that fails, because the device
// may have received the call (invariant 15).
func (a *Allocator) queueMarkLocked(s Stream) error {
	st := &a.streams[s]
	st.marks++
	st.sinceMark = 0
	if err := a.timeline.Mark(s, st.marks); err != nil {
		return status.Errorf(status.Unknown, "allocator %s could not queue a mark in stream %d: %w", a.name, s, err)
	}
	st.queued = st.marks
	return nil
}

// needsMarkLocked reports whether memory waits for a mark of the stream that is not queued yet.
func (a *Allocator) needsMarkLocked(st *stream) bool {
	return st.owned.newest != chunks.None && a.tags[st.owned.newest].mark > st.queued ||
		st.awaited.newest != chunks.None && a.uses[st.awaited.newest].mark > st.queued
}

// followLocked makes stream s wait for a mark of another stream, unless it already does.
func (a *Allocator) followLocked(s, other Stream, mark uint64) error {
	if mark <= a.followsLocked(s, other) {
		return nil
	}
	st := &a.streams[other]
	if mark > st.queued {
		if err := a.markLocked(other); err != nil {
			return err
		}
	}
	if st.passed >= st.queued { // the host has waited
		return nil
	}
	if a.streams[s].state == private { // a wait in a captured stream would become part of the graph: the host waits
		if err := a.timeline.Sync(other, st.queued); err != nil {
			return errSync(a.name, other, err)
		}
		st.passed = max(st.passed, st.queued)
		return nil
	}
	if err := a.timeline.Follow(s, other, st.queued); err != nil {
		return status.Errorf(status.Unknown, "allocator %s could not make stream %d wait for stream %d: %w", a.name,
			s, other, err)
	}
	mine := &a.streams[s]
	if more := int(other) + 1 - len(mine.follows); more > 0 {
		mine.follows = append(mine.follows, make([]uint64, more)...)
	}
	mine.follows[other] = st.queued
	return nil
}

// followsLocked returns the mark of another stream that all later work of stream s is ordered after, or 0.
func (a *Allocator) followsLocked(s, other Stream) uint64 {
	if follows := a.streams[s].follows; int(other) < len(follows) {
		return follows[other]
	}
	return 0
}

// queue is a first-in-first-out, doubly linked list of indexes of tags or uses. The links are stored in its members.
type queue struct{ oldest, newest uint32 }

// links are a member's neighbors in its queue.
type links struct{ before, after uint32 }

func (l *links) queued() *links { return l }

// member is a record that embeds links, so that it can be in a queue.
type member[T any] interface {
	*T
	queued() *links
}

// push appends i as the newest member.
func push[T any, M member[T]](q *queue, table []T, i uint32) {
	*M(&table[i]).queued() = links{before: q.newest}
	link[T, M](q, table, q.newest, i)
	q.newest = i
}

// drop removes i.
func drop[T any, M member[T]](q *queue, table []T, i uint32) {
	l := *M(&table[i]).queued()
	link[T, M](q, table, l.before, l.after)
}

// replace puts another record in i's position.
func replace[T any, M member[T]](q *queue, table []T, i, other uint32) {
	l := *M(&table[i]).queued()
	*M(&table[other]).queued() = l
	link[T, M](q, table, l.before, other)
	link[T, M](q, table, other, l.after)
}

// link makes two members neighbors; None stands for an end of the queue.
func link[T any, M member[T]](q *queue, table []T, before, after uint32) {
	if before == chunks.None {
		q.oldest = after
	} else {
		M(&table[before]).queued().after = after
	}
	if after == chunks.None {
		q.newest = before
	} else {
		M(&table[after]).queued().before = before
	}
}

// Timeline reports how far a device is with the work of its streams. The allocator calls it with its mutex held, and
// only once a second stream is used. The exceptions are Trim, Close and releasing idle regions, which call it with a
// single stream too.
//
// A mark is a point in a stream. The allocator numbers the marks of a stream number from 1 up, and never uses a
// number twice, even if the call failed or the stream number was reused for another stream in between.
//
// A program may destroy a stream at any time, and the device does not report it. So the allocator calls Mark and Follow
// only for a lasting stream, or for the one that the current call names. In place of a mark in any other stream, it
// waits for the whole device.
type Timeline interface {
	// Lasting reports whether the stream exists until the allocator is closed.
	Lasting(stream Stream) bool

	// Mark queues a mark behind everything that is queued in the stream.
	Mark(stream Stream, mark uint64) error

	// Passed returns the last mark of the stream that the device has reached, or 0. It does not wait. Everything queued
	// before that mark is done. It is called often and should cost no more than a memory load.
	Passed(stream Stream) (mark uint64)

	// Follow makes all later work of a stream wait until the device has reached a mark of another stream. The mark was
	// queued.
	Follow(stream, other Stream, mark uint64) error

	// Sync waits until the device has reached a mark that was queued. It fails if the device never will.
	Sync(stream Stream, mark uint64) error

	// SyncAll waits until everything queued so far in any stream is done.
	SyncAll() error
}
