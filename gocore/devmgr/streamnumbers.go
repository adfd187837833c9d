package devmgr

import (
	"sync"

	"gpuconf/gocore/bfc"
	"gpuconf/gocore/gpu"
)

// streamNumbers translate between CUDA's streams and the small numbers by which a pool's allocator knows them.
//
// The legacy default stream is number 0, and finding that out costs nothing. Any other stream is known by its id, because
// handles are used again after a stream's end and ids are not. A thread's own default stream has one handle in all threads; it is
// a stream for each thread, whose marks go into the legacy stream: that waits for it, and can be reached from any thread.
type streamNumbers struct {
	driver gpu.Driver
	device gpu.Device

	mu      sync.Mutex
	known   map[streamKey]bfc.Stream // guarded by mu
	handles []streamHandles          // guarded by mu; by number
}

type streamKey struct {
	id     uint64 // StreamGetID's, or the handle where the driver can't tell ids
	thread int    // of a thread's own default stream, else 0
}

// streamHandles are a stream's: where its work is queued, and where its marks are.
type streamHandles struct{ work, marks gpu.Stream }

func newStreamNumbers(driver gpu.Driver, device gpu.Device) *streamNumbers {
	return &streamNumbers{driver: driver, device: device, handles: []streamHandles{{}}}
}

// isLegacy reports whether a handle is the legacy default stream by either of its names.
func isLegacy(stream gpu.Stream) bool { return stream == gpu.StreamNull || stream == gpu.StreamLegacy }

// number gives the allocator's number of a stream, a new one where it has none yet.
func (s *streamNumbers) of(stream gpu.Stream, allocator *bfc.Allocator) (bfc.Stream, error) {
	if isLegacy(stream) {
		return 0, nil
	}
	key, handles := s.describe(stream)
	s.mu.Lock()
	number, known := s.known[key]
	s.mu.Unlock()
	if known {
		return number, nil
	}
	number, err := allocator.NewStream(uint64(stream)) // without the lock: the allocator may be asking for handles
	if err != nil {
		return 0, err
	}
	return s.enter(key, handles, number), nil
}

// enter writes a new number down. Where another thread was faster its number counts; ours is never used.
func (s *streamNumbers) enter(key streamKey, handles streamHandles, number bfc.Stream) bfc.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, known := s.known[key]; known {
		return other
	}
	for int(number) >= len(s.handles) {
		s.handles = append(s.handles, streamHandles{})
	}
	s.handles[number] = handles
	if s.known == nil {
		s.known = map[streamKey]bfc.Stream{}
	}
	s.known[key] = number
	return number
}

func (s *streamNumbers) describe(stream gpu.Stream) (streamKey, streamHandles) {
	if stream == gpu.StreamPerThread {
		return streamKey{id: uint64(stream), thread: threadID()}, streamHandles{work: stream, marks: gpu.StreamNull}
	}
	id, err := s.driver.StreamGetID(s.device.Ordinal, stream)
	if err != nil {
		id = uint64(stream)
	}
	return streamKey{id: id}, streamHandles{work: stream, marks: stream}
}

func (s *streamNumbers) handle(number bfc.Stream) streamHandles {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handles[number]
}
