// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
)

// streamNumbers maps CUDA streams to the small numbers that a pool's allocator uses.
//
// The legacy default stream is number 0, which needs no lookup. A lasting stream is identified by its handle, without
// asking the driver. Any other stream is identified by its id, because handles are reused after a stream is destroyed
// and ids are not. The per-thread default stream has the same handle in all threads, but is a different stream in each;
// its marks go into the legacy stream, which waits for it and can be used from any thread.
//
// The id of a captured stream cannot be queried (fact 32 of package gpu), so it may be another one than that of the
// last allocation. Unless it is lasting, what it allocates while it is captured has a number for the handle of captured
// streams, which is never alive: once the graph is gone, that memory is handed over after a wait for the GPU.
//
// CUDA does not report that a stream was destroyed, and drivers crash on the handle of one. So the handle of a stream
// that is not lasting is used only in calls that were given it, and otherwise the timeline waits for the whole GPU. A
// handle that comes again with another id belonged to a stream that was destroyed. Once there are enough of these,
// their numbers are ended, so that they can be reused.
type streamNumbers struct {
	driver  gpu.Driver
	device  gpu.Device
	lasting atomic.Pointer[map[gpu.Stream]bfc.Stream] // the lasting streams; written with mu held

	mu      sync.Mutex
	known   map[streamKey]bfc.Stream  // guarded by mu, as is all below
	newest  map[gpu.Stream]bfc.Stream // the last number of each handle
	handles []streamHandles           // by number
	gone    []bfc.Stream              // numbers of destroyed streams that have not been ended
}

type streamKey struct {
	id       uint64 // from StreamGetID, or the handle if the driver has no ids, or if captured
	thread   int    // for a per-thread default stream, else 0
	captured bool   // whichever stream has this handle while it is captured
}

// streamHandles are the handles of a stream: where its work is queued, and where its marks are.
type streamHandles struct {
	work, marks gpu.Stream
	key         streamKey
	lasting     bool // the stream is never destroyed
	gone        bool // the stream was destroyed
}

// enoughGone is the number of destroyed streams that justifies a wait for the GPU.
const enoughGone = 64

func newStreamNumbers(driver gpu.Driver, device gpu.Device) *streamNumbers {
	return &streamNumbers{driver: driver, device: device, handles: []streamHandles{{}}}
}

// isLegacy reports whether a handle is the legacy default stream by either of its names.
func isLegacy(stream gpu.Stream) bool { return stream == gpu.StreamNull || stream == gpu.StreamLegacy }

// of returns the allocator's number of a stream that is not being captured, a new one if it has none yet. lasting: the
// stream is never destroyed. An invalid stream is an InvalidArgument error.
func (s *streamNumbers) of(stream gpu.Stream, lasting bool, allocator *bfc.Allocator) (bfc.Stream, error) {
	if isLegacy(stream) {
		return 0, nil
	}
	if number, known := s.findLasting(stream); known {
		return number, nil
	}
	handles, err := s.describe(stream)
	if err != nil {
		return 0, err
	}
	number, err := s.numberOf(handles, allocator)
	if err == nil && lasting {
		s.last(stream, number)
	}
	return number, err
}

// ofCaptured is of for a stream that is being captured.
func (s *streamNumbers) ofCaptured(stream gpu.Stream, allocator *bfc.Allocator) (bfc.Stream, error) {
	if number, known := s.findLasting(stream); known {
		return number, nil
	}
	key := streamKey{id: uint64(stream), captured: true}
	if stream == gpu.StreamPerThread {
		key.thread = threadID()
	}
	return s.numberOf(streamHandles{work: stream, marks: stream, key: key}, allocator)
}

func (s *streamNumbers) findLasting(stream gpu.Stream) (number bfc.Stream, known bool) {
	if all := s.lasting.Load(); all != nil {
		number, known = (*all)[stream]
	}
	return number, known
}

// last records that a stream is lasting.
func (s *streamNumbers) last(stream gpu.Stream, number bfc.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handles[number].lasting = true
	all := map[gpu.Stream]bfc.Stream{stream: number}
	if before := s.lasting.Load(); before != nil {
		maps.Copy(all, *before)
	}
	s.lasting.Store(&all)
}

// numberOf returns the number of a stream, a new one if it has none yet.
func (s *streamNumbers) numberOf(handles streamHandles, allocator *bfc.Allocator) (bfc.Stream, error) {
	s.mu.Lock()
	number, known := s.known[handles.key]
	s.mu.Unlock()
	if known {
		return number, nil
	}
	s.endGone(allocator)
	// NewStream is called without s.mu, because the allocator may be asking for handles meanwhile.
	number, err := allocator.NewStream(uint64(handles.work))
	if err != nil {
		return 0, err
	}
	return s.enter(handles, number), nil
}

// enter stores a new number. If another thread was faster, its number is used and ours stays unused.
func (s *streamNumbers) enter(handles streamHandles, number bfc.Stream) bfc.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, known := s.known[handles.key]; known {
		return other
	}
	for int(number) >= len(s.handles) {
		s.handles = append(s.handles, streamHandles{})
	}
	if s.known == nil {
		s.known, s.newest = map[streamKey]bfc.Stream{}, map[gpu.Stream]bfc.Stream{}
	}
	s.handles[number] = handles
	s.known[handles.key] = number
	if handles.work != gpu.StreamPerThread && !handles.key.captured {
		if before, reused := s.newest[handles.work]; reused && before != number {
			s.leaveLocked(before)
		}
		s.newest[handles.work] = number
	}
	return number
}

// leaveLocked records that a stream was destroyed.
func (s *streamNumbers) leaveLocked(number bfc.Stream) {
	h := &s.handles[number]
	if h.gone {
		return
	}
	h.gone = true
	delete(s.known, h.key)
	if s.newest[h.work] == number {
		delete(s.newest, h.work)
	}
	s.gone = append(s.gone, number)
}

// endGone ends the numbers of destroyed streams once there are enough of them.
func (s *streamNumbers) endGone(allocator *bfc.Allocator) {
	s.mu.Lock()
	var gone []bfc.Stream // removed from the list: a number that is ended here may soon belong to another stream
	if len(s.gone) >= enoughGone {
		gone, s.gone = s.gone, nil
	}
	s.mu.Unlock()
	for _, number := range gone {
		if allocator.EndStream(number) != nil {
			s.mu.Lock()
			s.gone = append(s.gone, number)
			s.mu.Unlock()
		}
	}
}

func (s *streamNumbers) describe(stream gpu.Stream) (streamHandles, error) {
	id, err := s.driver.StreamGetID(s.device.Ordinal, stream)
	switch {
	case isNoStream(err):
		return streamHandles{}, errNoStream(stream, s.device, err)
	case err != nil:
		id = uint64(stream)
	}
	if stream == gpu.StreamPerThread {
		return streamHandles{work: stream, marks: gpu.StreamNull, key: streamKey{id: id, thread: threadID()}}, nil
	}
	return streamHandles{work: stream, marks: stream, key: streamKey{id: id}}, nil
}

// threadID identifies the calling OS thread. It is meaningful only if the caller stays on its thread, as a call from C
// does.
func threadID() int { return syscall.Gettid() }

func errNoStream(stream gpu.Stream, device gpu.Device, err error) error {
	return status.Errorf(status.InvalidArgument, "%#x is not a stream of CUDA device %d: it was destroyed, or "+
		"belongs to another device (%w)",
		uint64(stream), device.Ordinal, err)
}

// isNoStream reports whether an error means that a handle is not a valid stream.
func isNoStream(err error) bool {
	return errors.Is(err, gpu.ErrorInvalidHandle) || errors.Is(err, gpu.ErrorContextIsDestroyed)
}

// errIfAnyCaptured returns an error if the driver says that a lasting stream is being captured, or a blocking one, for
// which it refuses the legacy stream: waiting for all streams would invalidate the capture.
func (s *streamNumbers) errIfAnyCaptured() error {
	s.mu.Lock()
	handles := slices.Clone(s.handles)
	s.mu.Unlock()
	for _, h := range handles {
		if !h.lasting && !isLegacy(h.work) {
			continue
		}
		if err := errIfCaptured(s.driver, s.device, h.work); err != nil {
			return err
		}
	}
	return nil
}

func (s *streamNumbers) handle(number bfc.Stream) streamHandles {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handles[number]
}
