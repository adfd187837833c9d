package trace

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"gpuconf/gocore/offheap"
	"gpuconf/gocore/status"
)

// MostEvents is how many entries a ring may have: more than fits into memory, on purpose; it is taken as it is filled.
const MostEvents = 1 << 28

// Recorder has a ring for each logical GPU, and one for its segments. It runs from its making until Stop.
type Recorder struct {
	capacity int // immutable

	mu    sync.Mutex
	clock *clock  // its end is written with mu held
	rings []*Ring // guarded by mu; by GPU number, nil where there is none
	done  bool    // guarded by mu
}

// Recording is what a Recorder has seen.
type Recording struct {
	Events []Event
	Lost   uint64 // older entries that had to make room
}

// NewRecorder begins a recording that keeps the newest so many entries of each logical GPU.
func NewRecorder(capacity int) (*Recorder, error) {
	if capacity < 1 || capacity > MostEvents {
		return nil, status.Errorf(status.InvalidArgument, "a recording can keep 1 to %d events, but got %d", MostEvents, capacity)
	}
	return &Recorder{capacity: capacity, clock: newClock()}, nil
}

// Ring gives the ring of a logical GPU: a new one at the first call. guard is the lock of the GPU's books, which whoever appends holds. A
// further call may name another one, once nobody appends under the former.
func (r *Recorder) Ring(gpu int, guard sync.Locker) (*Ring, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return nil, status.Errorf(status.FailedPrecondition, "the recording has stopped")
	}
	for gpu >= len(r.rings) {
		r.rings = append(r.rings, nil)
	}
	if r.rings[gpu] == nil {
		ring, err := r.newRing(gpu)
		if err != nil {
			return nil, err
		}
		offheap.Warm(ring.entries, 0, min(len(ring.entries), readyEntries))
		if ring.segments, err = r.newRing(gpu); err != nil {
			return nil, errors.Join(err, offheap.Unmap(ring.entries))
		}
		r.rings[gpu] = ring
	}
	ring := r.rings[gpu]
	ring.guard, ring.segments.guard = guard, guard
	return ring, nil
}

func (r *Recorder) newRing(gpu int) (*Ring, error) {
	entries, err := offheap.Map[entry]("a recording", r.capacity)
	return &Ring{clock: r.clock, gpu: gpu, entries: entries}, err
}

// Count tells how many entries there were so far, without segments, and how many of them had to make room.
func (r *Recorder) Count() (all, lost uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ring := range r.rings {
		if ring != nil {
			a, l := ring.counts()
			all, lost = all+a, lost+l
		}
	}
	return all, lost
}

// Stop ends the recording. live is what is live now, by GPU number: with it the blocks that were live all the time are known too.
func (r *Recorder) Stop(live map[int][]Block) (Recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return Recording{}, status.Errorf(status.FailedPrecondition, "the recording has stopped")
	}
	r.done = true
	r.clock.stop()
	var recording Recording
	var err error
	for gpu, ring := range r.rings {
		if ring != nil {
			events, lost, refusal := ring.stop(live[gpu])
			recording.Events, recording.Lost = append(recording.Events, events...), recording.Lost+lost
			err = errors.Join(err, refusal)
		}
	}
	sortByTime(recording.Events) // each GPU's are in order
	for i := range recording.Events {
		e := &recording.Events[i]
		e.Micros = r.clock.micros(uint64(e.Micros))
	}
	return recording, err
}

// stop takes all events of a GPU out of its rings, with ticks for microseconds, and ends the tables.
func (r *Ring) stop(live []Block) (events []Event, lost uint64, err error) {
	events, lost, err = r.take()
	segments, lostToo, refusal := r.segments.take()
	began := int64(r.clock.first)
	if lost > 0 {
		began = events[0].Micros
	}
	before := liveBefore(r.gpu, events, live, began)
	// Of one time, what was live before comes first; then a segment, before the first block in it.
	events = slices.Concat(before, segments, events)
	sortByTime(events)
	return events, lost + lostToo, errors.Join(err, refusal)
}

func sortByTime(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Micros, b.Micros) })
}
