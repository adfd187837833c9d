// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"sync"

	"gpuconf/gocore/base/offheap"
	"gpuconf/gocore/base/status"
)

// MostEvents is the largest capacity of a ring. It is more than fits into memory, on purpose: pages are committed as
// the ring is filled.
const MostEvents = 1 << 28

// Recorder has a ring for each logical GPU, and one for its segments. It records from NewRecorder to Stop, and keeps
// the recording until Close.
type Recorder struct {
	capacity int    // immutable
	sites    *Sites // immutable; nil: without stacks

	mu    sync.Mutex
	clock *clock  // Stop writes it with mu held
	rings []*Ring // guarded by mu; by GPU number, nil where there is none
	done  bool    // guarded by mu

	live   map[int][]Block // guarded by mu; the live blocks at Stop, by GPU number
	closed bool            // guarded by mu
}

// Recording is what a Recorder has recorded.
type Recording struct {
	Events []Event // those of one GPU in the order in which they happened
	Lost   uint64  // the number of older events that were overwritten
	Names  Names   // what the events' numbers mean

	Settings *HistorySettings // of PyTorch's allocator; nil unless a snapshot was read
}

// NewRecorder starts a recording that keeps the newest capacity entries of each logical GPU. sites is where its stacks
// are kept, or nil.
func NewRecorder(capacity int, sites *Sites) (*Recorder, error) {
	if capacity < 1 || capacity > MostEvents {
		return nil, status.Errorf(status.InvalidArgument, "a recording can keep 1 to %d events, but got %d",
			MostEvents, capacity)
	}
	return &Recorder{capacity: capacity, sites: sites, clock: newClock()}, nil
}

// Ring returns the ring of a logical GPU, and creates it at the first call. guard is the lock of the GPU's pool,
// which callers of Append hold. A later call may name another guard, once no thread appends under the previous one.
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
	return &Ring{clock: r.clock, gpu: gpu, sites: r.sites, entries: entries}, err
}

// Count returns the number of entries so far, without segments, and how many of them were overwritten.
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

// Stop ends the recording: nothing is appended afterwards. live contains the blocks that are live now, by GPU number,
// so that blocks that were live throughout are included. Further calls do nothing.
func (r *Recorder) Stop(live map[int][]Block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.done, r.live = true, live
	r.clock.stop()
	for _, ring := range r.rings {
		if ring != nil {
			ring.stop()
			ring.segments.stop()
		}
	}
}

// Recording returns the recorded events. The recording must have stopped. It is kept: further calls return the same
// events.
func (r *Recorder) Recording(ctx context.Context) (recording Recording, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done || r.closed {
		return Recording{}, status.Errorf(status.FailedPrecondition, "the recording has not stopped, or is closed")
	}
	names := newNaming()
	var all [][]Event
	for gpu, ring := range r.rings {
		if ring == nil {
			continue
		}
		events, lost, err := ring.all(ctx, r.live[gpu], names)
		if err != nil {
			return Recording{}, err
		}
		all, recording.Lost = append(all, events), recording.Lost+lost
	}
	if recording.Events, err = merged(ctx, all); err != nil {
		return Recording{}, err
	}
	for i := range recording.Events {
		e := &recording.Events[i]
		e.Micros = r.clock.micros(uint64(e.Micros))
	}
	recording.Names = names.Names
	return recording, nil
}

// Close unmaps the tables. It stops a running recording.
func (r *Recorder) Close() (err error) {
	r.Stop(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	for _, ring := range r.rings {
		if ring != nil {
			err = errors.Join(err, offheap.Unmap(ring.stopped), offheap.Unmap(ring.segments.stopped))
			ring.stopped, ring.segments.stopped = nil, nil
		}
	}
	return err
}

// all returns the events of a GPU, with ticks in place of microseconds.
func (r *Ring) all(ctx context.Context, live []Block, names *naming) (events []Event, lost uint64, err error) {
	events, err = r.events(ctx, names)
	if err != nil {
		return nil, 0, err
	}
	segments, err := r.segments.events(ctx, names)
	if err != nil {
		return nil, 0, err
	}
	lost = r.lost()
	began := int64(r.clock.first)
	if lost > 0 {
		began = events[0].Micros
	}
	before := liveBefore(events, r.ended(live, names), began)
	// Among equal times, blocks that were live before come first, then a segment, before the first block in it.
	events, err = merged(ctx, [][]Event{before, segments, events})
	return events, lost + r.segments.lost(), err
}

// ended returns the live blocks as events.
func (r *Ring) ended(live []Block, names *naming) []Event {
	events := make([]Event, len(live))
	for i, b := range live {
		events[i] = Event{GPU: r.gpu, Addr: b.Addr, Bytes: b.Bytes, Holder: names.holderOf(b.Holder),
			Stack: r.stackOf(names, b.Site)}
	}
	return events
}
