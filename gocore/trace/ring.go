package trace

import (
	"context"
	"sync"
)

// entry is an Event as a ring keeps it: 40 bytes, since most of what it costs is the way to memory.
type entry struct {
	ticks  uint64
	doer   uint64 // the thread, and in the lowest byte the action: no thread's pointer or number fills 56 bits
	addr   uint64
	bytes  uint64
	stream uint64
}

const actionBits = 8

// readyEntries are committed when a ring is made, 8 MiB of them. The ring is filled in front of callers who wait for an allocation, and
// a page fault there costs as much as fifty entries.
const readyEntries = 8 << 20 / 40

// Ring keeps the newest entries of one logical GPU.
type Ring struct {
	clock    *clock      // immutable; its end is written once nobody reads it
	gpu      int         // immutable
	segments *Ring       // immutable; nil in one that is such a ring itself
	guard    sync.Locker // guarded by the recorder's mutex; the same in segments
	entries  []entry     // guarded by guard, as are both below; outside the Go heap; nil once the recorder has stopped
	at       int         // where the next one goes
	count    uint64      // of all so far

	stopped []entry // guarded by the recorder's mutex; the table, from Stop to Close
}

// Segments is the ring for what the GPU's pool takes from the device and gives back: few entries, which blocks' must not push out.
func (r *Ring) Segments() *Ring { return r.segments }

// Append adds an entry of now. The guard is held, since before the change that the entry tells of.
func (r *Ring) Append(action Action, addr, bytes, stream uint64) {
	if r.at >= len(r.entries) {
		if len(r.entries) == 0 {
			return
		}
		r.at = 0
	}
	e := &r.entries[r.at] // field by field: a whole one would be made elsewhere and copied
	e.doer, e.addr, e.bytes, e.stream = thread()<<actionBits|uint64(action), addr, bytes, stream
	e.ticks = r.clock.now()
	r.at++
	r.count++
}

// What follows needs the recorder's mutex.

func (r *Ring) counts() (all, lost uint64) {
	r.guard.Lock()
	defer r.guard.Unlock()
	return r.count, r.lost()
}

// stop takes the table away from those who append.
func (r *Ring) stop() {
	r.guard.Lock()
	defer r.guard.Unlock()
	r.stopped, r.entries = r.entries, nil
}

// lost counts the entries that had to make room.
func (r *Ring) lost() uint64 { return r.count - min(r.count, uint64(len(r.entries)+len(r.stopped))) }

// events gives what is in the table that was stopped, oldest first, with ticks for microseconds.
func (r *Ring) events(ctx context.Context) ([]Event, error) {
	held := int(min(r.count, uint64(len(r.stopped))))
	if held == 0 {
		return nil, nil
	}
	events := make([]Event, 0, held)
	for i := range held {
		if i%stepsBetween == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := r.stopped[(r.at+len(r.stopped)-held+i)%len(r.stopped)]
		events = append(events, Event{Micros: int64(e.ticks), Thread: e.doer >> actionBits, Action: Action(e.doer), GPU: r.gpu,
			Addr: e.addr, Bytes: e.bytes, Stream: e.stream})
	}
	return events, nil
}
