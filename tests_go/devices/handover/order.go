package handover

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
)

// mostStreams is how many streams a program may have.
const mostStreams = 4

// clock counts pieces of work by stream: everything up to these counts comes before.
type clock [mostStreams]int

func (c *clock) join(other clock) {
	for i, n := range other {
		c[i] = max(c[i], n)
	}
}

// order is a driver that forwards calls and derives from them alone what comes after what.
type order struct {
	gpu.Driver
	t        require.TestingT
	streams  []gpu.Stream
	kinds    []Kind
	hostWord func(addr uint64) *uint64

	mu     sync.Mutex
	queued []clock // by stream: what its next work comes after
	host   clock   // what the host can know to be done
	marks  map[uint64][]mark
	events map[gpu.Event]clock
	uses   []use
	ahead  [][]piece // by stream: what the device has not done yet; only kept on stepped machines
	keep   bool
}

// mark is a value of a word, and what precedes its write.
type mark struct {
	value uint64
	clock clock
}

// use is work on the bytes of a block.
type use struct {
	owner      int
	from, to   uint64
	stream, at int
}

// piece is queued work, with what other work can depend on.
type piece struct {
	from, to    uint64 // bytes that it touches
	marks, wait bool
}

func newOrder(t require.TestingT, driver gpu.Driver, kinds []Kind, keep bool) *order {
	o := &order{Driver: driver, t: t, kinds: kinds, keep: keep}
	for _, kind := range kinds {
		stream := gpu.StreamNull
		if kind != Legacy {
			var err error
			stream, err = driver.StreamCreate(0, kind.flags(), 0)
			require.NoError(t, err)
		}
		o.streams = append(o.streams, stream)
	}
	o.forget()
	return o
}

// Close leaves the driver open: it serves many runs.
func (o *order) Close() error { return nil }

// end destroys the streams.
func (o *order) end() {
	for i, stream := range o.streams {
		if o.kinds[i] != Legacy {
			require.NoError(o.t, o.Driver.StreamDestroy(0, stream))
		}
	}
}

// forget starts over, when all work is done.
func (o *order) forget() {
	o.queued, o.host, o.uses = make([]clock, len(o.kinds)), clock{}, o.uses[:0]
	o.marks, o.events = map[uint64][]mark{}, map[gpu.Event]clock{}
	o.ahead = make([][]piece, len(o.kinds))
}

func (o *order) slot(stream gpu.Stream) int {
	at := slices.Index(o.streams, stream)
	if at < 0 {
		require.Failf(o.t, "a call for a stream that is none of the program's", "%#x", uint64(stream))
	}
	return at
}

// enqueue records one more piece of work, and returns what it comes after, including itself.
func (o *order) enqueue(s int, p piece) *clock {
	c := &o.queued[s]
	c.join(o.host)
	for other, kind := range o.kinds { // CUDA's own rule for the default stream
		if o.kinds[s] == Legacy && kind == Blocking || o.kinds[s] == Blocking && kind == Legacy {
			c.join(o.queued[other])
		}
	}
	c[s]++
	if o.keep {
		o.ahead[s] = append(o.ahead[s], p)
	}
	return c
}

// touch checks work on a block that has just been queued.
func (o *order) touch(owner, s int, from, bytes uint64) {
	c := o.enqueue(s, piece{from: from, to: from + bytes})
	for _, u := range o.uses {
		if u.owner != owner && u.from < from+bytes && from < u.to && c[u.stream] < u.at {
			require.Failf(o.t, "two owners' work may meet", "work of block %d in stream %d comes after %v, not after "+
				"work %d of block %d in stream %d on the same bytes", owner, s, *c, u.at, u.owner, u.stream)
		}
	}
	o.uses = append(o.uses, use{owner: owner, from: from, to: from + bytes, stream: s, at: c[s]})
}

// look is the host reading all words: it may have seen the values that they have now.
func (o *order) look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for addr, marks := range o.marks {
		value := atomic.LoadUint64(o.hostWord(addr))
		for _, m := range marks {
			if m.value <= value {
				o.host.join(m.clock)
			}
		}
	}
}

// waited records that the host knows a stream is done.
func (o *order) waited(s int) { o.host.join(o.queued[s]) }

// done records that the device has done the next piece of a stream.
func (o *order) done(s int) { o.ahead[s] = o.ahead[s][1:] }

// The remaining calls are those that an allocator makes for ordering.

// MemHostAlloc remembers the words.
func (o *order) MemHostAlloc(ordinal int, bytes uint64) (gpu.HostMemory, error) {
	memory, err := o.Driver.MemHostAlloc(ordinal, bytes)
	if err == nil {
		o.hostWord = func(addr uint64) *uint64 { return &memory.Words[(addr-memory.Addr)/8] }
	}
	return memory, err
}

// StreamWriteValue64 records a mark.
func (o *order) StreamWriteValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.enqueue(o.slot(stream), piece{marks: true})
	o.marks[addr] = append(o.marks[addr], mark{value, *c})
	return o.Driver.StreamWriteValue64(ordinal, stream, addr, value)
}

// StreamWaitValue64 waits for the first mark that is large enough.
func (o *order) StreamWaitValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.slot(stream)
	o.enqueue(s, piece{wait: true})
	for _, m := range o.marks[addr] {
		if m.value >= value {
			o.queued[s].join(m.clock)
			break
		}
	}
	return o.Driver.StreamWaitValue64(ordinal, stream, addr, value)
}

// EventRecord records a mark.
func (o *order) EventRecord(ordinal int, event gpu.Event, stream gpu.Stream) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events[event] = *o.enqueue(o.slot(stream), piece{marks: true})
	return o.Driver.EventRecord(ordinal, event, stream)
}

// StreamWaitEvent waits for a mark; a simulated machine queues nothing if the event is done.
func (o *order) StreamWaitEvent(ordinal int, stream gpu.Stream, event gpu.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.slot(stream)
	if done, err := o.Driver.EventQuery(ordinal, event); err != nil || !done {
		o.enqueue(s, piece{wait: true})
	}
	o.queued[s].join(o.events[event])
	return o.Driver.StreamWaitEvent(ordinal, stream, event)
}

// EventQuery updates the host's knowledge.
func (o *order) EventQuery(ordinal int, event gpu.Event) (done bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	done, err = o.Driver.EventQuery(ordinal, event)
	if done {
		o.host.join(o.events[event])
	}
	return done, err
}
