package bfc

import (
	"errors"
	"math"

	"gpuconf/gocore/chunks"
	"gpuconf/gocore/offheap"
	"gpuconf/gocore/status"
)

// Stream is the number of a stream, small: NewStream gives it. Stream 0 is always there.
type Stream uint32

const (
	noStream    Stream = math.MaxUint32
	clean       Stream = noStream - 1 // in a tag: nobody's work touches the memory
	mostStreams        = 1 << 16
)

type streamState uint8

const (
	open    streamState = iota
	ended               // no more work is queued in it; what is queued may still run
	private             // of a capture: nobody else gets its memory, and no mark is queued for it (streams_capture.go)
)

// stream is what the allocator knows of one. But for state, marks and queued it means something in shared mode only.
type stream struct {
	state  streamState
	handle uint64 // what recordings call it
	marks  uint64 // number of the last mark that was tried
	queued uint64 // number of the last one that was queued
	passed uint64 // number of the last one that the device is known to have come to

	bins      *chunks.Bins // its free chunks; nil before its first allocation
	freeBytes uint64       // theirs
	owned     queue        // the same chunks, by mark
	awaited   queue        // uses of held chunks, by mark
	refs      uint64       // live and held chunks allocated on it, and uses of it
	follows   []uint64     // by other stream: the mark that this stream's later work waits for, or beyond
	refuses   bool         // within one search: waiting for it has failed
	of        Stream       // private: the stream that is captured

	sinceMark uint64 // bytes freed since the last mark was tried
}

// nextMark is the mark that covers what is freed now. A capture's is never queued.
func (st *stream) nextMark() uint64 {
	if st.state == ended {
		return st.marks // EndStream queued it
	}
	return st.marks + 1
}

// NewStream gives the number of another stream: of one that has ended and whose work is all done, if there is any. A recording tells
// its allocations by handle; stream 0 has handle 0.
func (a *Allocator) NewStream(handle uint64) (Stream, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, a.errClosed()
	}
	if a.timeline == nil {
		return 0, status.Errorf(status.Unimplemented, "allocator %s knows one stream only: it has no timeline", a.name)
	}
	return a.takeNumberLocked(handle)
}

// takeNumberLocked gives a number that is nobody's.
func (a *Allocator) takeNumberLocked(handle uint64) (Stream, error) {
	for s := range a.streams {
		if a.drainedLocked(Stream(s)) {
			a.streams[s].state, a.streams[s].follows, a.streams[s].handle = open, nil, handle
			return Stream(s), nil
		}
	}
	if len(a.streams) == mostStreams {
		return 0, status.Errorf(status.ResourceExhausted, "allocator %s has %d streams already; end some", a.name, mostStreams)
	}
	a.streams = append(a.streams, stream{handle: handle})
	return Stream(len(a.streams) - 1), nil
}

// drainedLocked reports whether a stream has ended and no trace of it is left.
func (a *Allocator) drainedLocked(s Stream) bool {
	if a.streams[s].state != ended {
		return false
	}
	a.reapLocked(s)
	st := &a.streams[s]
	return st.refs == 0 && st.owned.oldest == chunks.None && st.awaited.oldest == chunks.None && a.timeline.Passed(s) >= st.queued
}

// EndStream says that no more work comes to a stream, before the stream itself is destroyed. Blocks that were allocated on it stay;
// memory that was freed on it is for the others once its work is done. If it fails, the stream has not ended.
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
		return status.Errorf(status.InvalidArgument, "allocator %s: stream %d never ends", a.name, s)
	}
	if a.only == s { // its memory has to be told from that of the next one
		if err := a.shareLocked(); err != nil {
			return err
		}
	}
	if err := a.markLocked(s); err != nil { // the last chance to queue one
		return err
	}
	a.streams[s].state = ended
	return nil
}

func (a *Allocator) checkStreamLocked(s Stream) error {
	if int(s) >= len(a.streams) || a.streams[s].state == ended {
		return status.Errorf(status.InvalidArgument, "allocator %s: %d is no stream of it, or has ended", a.name, s)
	}
	return nil
}

// unmapShared ends the tables of the shared mode.
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

// admitLocked prepares for work on a stream that is not the only one so far. The second one makes the mode shared.
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

// shareLocked begins the shared mode, once and for all: everything so far belongs to the only stream that there was.
func (a *Allocator) shareLocked() (err error) {
	if err := a.takeSpareLocked(); err != nil {
		return err
	}
	cleanBins, err := a.bins.Beside()
	if err != nil {
		return err
	}
	if a.tags, err = offheap.Map[tag](chunks.TableName, len(a.chunks.Records)); err != nil {
		_ = cleanBins.UnmapBeside() // of a mapping just made: it cannot fail
		return err
	}
	s, st := a.only, &a.streams[a.only]
	a.cleanBins, a.only, a.shared = cleanBins, noStream, true
	a.serveLocked()
	a.uses = append(a.uses, use{}) // none
	st.bins = &a.bins
	for _, r := range a.regions {
		for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
			a.tags[i] = tag{stream: s}
			if c := &a.chunks.Records[i]; c.Free() {
				a.tags[i].mark = st.nextMark()
				push(&st.owned, a.tags, i)
				st.freeBytes += c.Bytes
			} else {
				st.refs++
			}
		}
	}
	return nil
}

// markLocked queues a mark. Its number is used up even if that fails, since the device may have got the call.
func (a *Allocator) markLocked(s Stream) error {
	st := &a.streams[s]
	st.marks++
	st.sinceMark = 0
	if err := a.timeline.Mark(s, st.marks); err != nil {
		return status.Errorf(status.Unknown, "allocator %s: no mark could be queued in stream %d: %w", a.name, s, err)
	}
	st.queued = st.marks
	return nil
}

// needsMarkLocked reports whether some memory waits for a mark of the stream that is not queued yet.
func (a *Allocator) needsMarkLocked(st *stream) bool {
	return st.owned.newest != chunks.None && a.tags[st.owned.newest].mark > st.queued ||
		st.awaited.newest != chunks.None && a.uses[st.awaited.newest].mark > st.queued
}

// followLocked makes stream s wait for a mark of another stream, unless it does so already.
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
	if a.streams[s].state == private { // a wait in a captured stream would be captured: the host waits
		if err := a.timeline.Sync(other, st.queued); err != nil {
			return errSync(a.name, other, err)
		}
		st.passed = max(st.passed, st.queued)
		return nil
	}
	if err := a.timeline.Follow(s, other, st.queued); err != nil {
		return status.Errorf(status.Unknown, "allocator %s: stream %d could not be made to wait for stream %d: %w", a.name, s, other, err)
	}
	mine := &a.streams[s]
	if more := int(other) + 1 - len(mine.follows); more > 0 {
		mine.follows = append(mine.follows, make([]uint64, more)...)
	}
	mine.follows[other] = st.queued
	return nil
}

// followsLocked gives the mark of another stream that all later work of stream s comes after, or 0.
func (a *Allocator) followsLocked(s, other Stream) uint64 {
	if follows := a.streams[s].follows; int(other) < len(follows) {
		return follows[other]
	}
	return 0
}
