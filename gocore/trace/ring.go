package trace

import (
	"context"
	"sync"
)

// entry is an Event as a ring stores it: 40 bytes, because most of its cost is memory bandwidth.
type entry struct {
	ticks  uint64
	doer   uint64 // the thread, and in the lowest byte the action: thread pointers and numbers fit into 56 bits
	addr   uint64
	bytes  uint64
	stream uint64
}

const actionBits = 8

// readyEntries are committed when a ring is created, 8 MiB of them. Entries are appended while callers wait for an
// allocation, and a page fault there costs as much as fifty entries.
const readyEntries = 8 << 20 / 40

// Ring keeps the newest entries of one logical GPU.
type Ring struct {
	clock    *clock      // immutable; Stop updates it when no thread reads it any more
	gpu      int         // immutable
	segments *Ring       // immutable; nil in a segment ring itself
	guard    sync.Locker // guarded by the recorder's mutex; segments has the same guard
	entries  []entry     // guarded by guard, as are at and count; outside the Go heap; nil once the recorder has stopped
	at       int         // where the next one goes
	count    uint64      // of all entries so far

	stopped []entry // guarded by the recorder's mutex; the table, from Stop to Close
}

// Segments returns the ring for memory that the GPU's pool takes from the device and returns to it. There are few such entries, and
// entries of blocks must not overwrite them.
func (r *Ring) Segments() *Ring { return r.segments }

// Append adds an entry with the current time. The caller holds the guard, and has held it since before the change that the entry
// describes (invariants 1 and 2).
func (r *Ring) Append(action Action, addr, bytes, stream uint64) {
	if r.at >= len(r.entries) {
		if len(r.entries) == 0 {
			return
		}
		r.at = 0
	}
	e := &r.entries[r.at] // field by field: a composite literal would be built elsewhere and copied
	e.doer, e.addr, e.bytes, e.stream = thread()<<actionBits|uint64(action), addr, bytes, stream
	e.ticks = r.clock.now()
	r.at++
	r.count++
}

// The methods below require the recorder's mutex.

func (r *Ring) counts() (all, lost uint64) {
	r.guard.Lock()
	defer r.guard.Unlock()
	return r.count, r.lost()
}

// stop makes further calls of Append do nothing.
func (r *Ring) stop() {
	r.guard.Lock()
	defer r.guard.Unlock()
	r.stopped, r.entries = r.entries, nil
}

// lost returns the number of entries that were overwritten.
func (r *Ring) lost() uint64 { return r.count - min(r.count, uint64(len(r.entries)+len(r.stopped))) }

// events returns the entries of the stopped table, oldest first, with ticks in place of microseconds.
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
