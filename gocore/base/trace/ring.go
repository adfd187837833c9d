// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"gpuconf/gocore/base/holder"
)

// entry is an Event as a ring stores it: 48 bytes, because most of its cost is memory bandwidth.
type entry struct {
	ticks  uint64
	doer   uint64 // the thread, and in the lowest byte the action: thread pointers and numbers fit into 56 bits
	addr   uint64
	bytes  uint64
	stream uint64
	origin uint64 // the holder, and in the lower half the site
}

const actionBits = 8

// readyEntries are committed when a ring is created, 8 MiB of them. Entries are appended while callers wait for an
// allocation, and a page fault there costs as much as fifty entries.
const readyEntries = 8 << 20 / 48

// Ring keeps the newest entries of one logical GPU.
type Ring struct {
	clock    *clock      // immutable; Stop updates it when no thread reads it any more
	gpu      int         // immutable
	sites    *Sites      // immutable; nil: without stacks
	segments *Ring       // immutable; nil in a segment ring itself
	guard    sync.Locker // guarded by the recorder's mutex; segments has the same guard
	// entries, at and count are guarded by guard. The entries are outside the Go heap, and nil once the recorder has
	// stopped.
	entries []entry
	at      int    // where the next one goes
	count   uint64 // of all entries so far

	stopped []entry // guarded by the recorder's mutex; the table, from Stop to Close
}

// Segments returns the ring for memory that the GPU's pool takes from the device and returns to it. There are few such
// entries, and entries of blocks must not overwrite them.
func (r *Ring) Segments() *Ring { return r.segments }

// Site returns the site of the calling thread's allocation, or 0.
func (r *Ring) Site() uint32 {
	if r.sites == nil {
		return 0
	}
	return r.sites.read()
}

// Sites returns the recording's stacks; nil if it has none.
func (r *Ring) Sites() *Sites { return r.sites }

// Append adds an entry with the current time. The caller holds the guard, and has held it since before the change that
// the entry describes (invariants 1 and 2).
func (r *Ring) Append(action Action, addr, bytes, stream uint64, by holder.ID, site uint32) {
	if r.at >= len(r.entries) {
		if len(r.entries) == 0 {
			return
		}
		r.at = 0
	}
	e := &r.entries[r.at] // field by field: a composite literal would be built elsewhere and copied
	e.doer, e.addr, e.bytes, e.stream = thread()<<actionBits|uint64(action), addr, bytes, stream
	e.origin = uint64(by)<<32 | uint64(site)
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
func (r *Ring) events(ctx context.Context, names *naming) ([]Event, error) {
	count := int(min(r.count, uint64(len(r.stopped))))
	if count == 0 {
		return nil, nil
	}
	events := make([]Event, 0, count)
	for i := range count {
		if i%stepsBetween == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := r.stopped[(r.at+len(r.stopped)-count+i)%len(r.stopped)]
		event := Event{Micros: int64(e.ticks), Thread: e.doer >> actionBits, Action: Action(e.doer), GPU: r.gpu,
			Addr: e.addr, Bytes: e.bytes, Stream: e.stream, Stack: r.stackOf(names, uint32(e.origin))}
		if r.segments != nil { // segments belong to the pool
			event.Holder = names.holderOf(holder.ID(e.origin >> 32))
		}
		events = append(events, event)
	}
	return events, nil
}

// stackOf adds the stack of a site to the names.
func (r *Ring) stackOf(names *naming, site uint32) uint32 {
	if site == 0 || r.sites == nil {
		return 0
	}
	return names.site(site, r.sites)
}

// counter reads the processor's counter of time. thread reads the thread pointer, which identifies the calling thread:
// with cgo, every thread belongs to the C library (registers_*.s).
func counter() uint64
func thread() uint64

// steadyClocksource is the kernel's name of the clock source that uses the same counter.
var steadyClocksource = map[string]string{"amd64": "tsc", "arm64": "arch_sys_counter"}[runtime.GOARCH]

// clock reads the time in ticks of the cheapest source, and converts ticks to time once it has stopped.
type clock struct {
	counts bool      // ticks are those of the processor's counter; otherwise nanoseconds since base
	base   time.Time // with Go's reading of the monotonic clock
	began  int64     // microseconds since 1970, at base
	first  uint64    // ticks at base

	span  uint64        // ticks from base to stop
	lasts time.Duration // the same span as a duration
}

// newClock starts a clock. It uses the processor's counter if the kernel uses it too: the counter then runs evenly,
// and alike on all cores.
func newClock() *clock {
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	c := &clock{counts: err == nil && strings.TrimSpace(string(source)) == steadyClocksource}
	c.base = time.Now()
	c.began = c.base.UnixMicro()
	if c.counts {
		c.first = counter()
	}
	return c
}

// now returns the current tick. Ticks are in order only if callers take turns, under a lock.
func (c *clock) now() uint64 {
	if c.counts {
		return counter()
	}
	return uint64(time.Since(c.base))
}

func (c *clock) stop() {
	c.span = max(c.now()-c.first, 1)
	c.lasts = time.Since(c.base)
}

// micros returns the time of a tick before the stop, in microseconds since 1970.
func (c *clock) micros(ticks uint64) int64 {
	// A float64's 53 bits suffice for microsecond resolution over a month of a gigahertz counter.
	return c.began + int64(float64(ticks-c.first)/float64(c.span)*float64(c.lasts)/float64(time.Microsecond))
}
