package bfc_test

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

// world is a device's streams as a test sees them, and the oracle of who may get which memory. It is the allocator's
// Timeline.
//
// Each piece of work has a number within its stream. A clock holds, for each stream, the number of its last piece of
// work that something comes after. Each stream has a clock, each mark keeps its stream's clock from when it was queued,
// and the host has one: the work known to be done. A stream may get a block if the last work of each stream that
// touched any unit of it is known to come before.
type world struct {
	t       require.TestingT
	a       *bfc.Allocator
	streams map[bfc.Stream]*worldStream
	host    clock
	units   map[uint64]clock // by address / 256: the last work of each stream that touched it
	live    []worldBlock
	refuse  func() error // called before each call of the timeline; nil: no failures
	asked   []string     // the calls since takeAsked
	quiet   bool         // any call of the timeline is a failure
	atEnd   func()       // before the pool closes

	captures  map[bfc.Stream]bfc.Stream // owners of captures, with the captured stream
	capturing map[bfc.Stream]bool       // streams in which nothing may be queued now
	fleeting  map[bfc.Stream]bool       // streams that may have been destroyed, unless the current request names them
	named     bfc.Stream
}

type clock map[bfc.Stream]int

func (c clock) join(other clock) {
	for s, n := range other {
		c[s] = max(c[s], n)
	}
}

type worldStream struct {
	clock  clock
	queued []queuedMark // not yet passed by the device
	marks  map[uint64]clock
	last   uint64 // mark tried
	passed uint64
	ended  bool
}

// queuedMark is a mark in a stream, or a wait for another stream's mark.
type queuedMark struct {
	mark  uint64
	waits bool
	other bfc.Stream
}

type worldBlock struct {
	bfc.Block
	stream bfc.Stream
	users  []bfc.Stream
}

var errRefused = errors.New("the timeline refuses")

func newWorld(t require.TestingT, sub bfc.SubAllocator, opts bfc.Options) *world {
	w := &world{t: t, streams: map[bfc.Stream]*worldStream{}, host: clock{}, units: map[uint64]clock{},
		captures: map[bfc.Stream]bfc.Stream{}, capturing: map[bfc.Stream]bool{}, fleeting: map[bfc.Stream]bool{}}
	w.addStream(0)
	opts.Timeline = w

	w.a = must.OK(bfc.New(sub, opts))(t)
	return w
}

func (w *world) addStream(s bfc.Stream) {
	if old := w.streams[s]; old != nil { // a number that is reused
		require.True(w.t, old.ended)
		require.Equal(w.t, old.last, old.passed, "stream %d was not done", s)
		require.LessOrEqual(w.t, old.clock[s], w.host[s], "the host did not know that stream %d was done", s)
		old.ended, old.clock = false, clock{s: old.clock[s]} // another stream: it has not waited for any
		return
	}
	w.streams[s] = &worldStream{clock: clock{}, marks: map[uint64]clock{}}
}

func (w *world) newStream() bfc.Stream {
	s := must.OK(w.a.NewStream(0))(w.t)
	w.addStream(s)
	return s
}

func (w *world) call(name string) error {
	require.False(w.t, w.quiet, "%s was called", name)
	w.asked = append(w.asked, name)
	if w.refuse == nil {
		return nil
	}
	return w.refuse()
}

func (w *world) takeAsked() []string {
	asked := w.asked
	w.asked = nil
	return asked
}

func (w *world) Lasting(s bfc.Stream) bool { return !w.fleeting[s] }

func (w *world) requireThere(s bfc.Stream) {
	require.True(w.t, !w.fleeting[s] || w.named == s, "stream %d may have been destroyed, and its handle was used", s)
}

// SyncAll runs the device until all that is queued is done.
func (w *world) SyncAll() error {
	if err := w.call("sync all"); err != nil {
		return err
	}
	for range w.capturing {
		require.NotContains(w.t, w.captures, w.named, "the wait invalidates the capture that requests memory")
	}
	for again := true; again; {
		again = false
		for s := range w.streams {
			for w.advance(s) {
				again = true
			}
		}
	}
	for s, st := range w.streams {
		require.Empty(w.t, st.queued, "stream %d cannot go on", s)
		if _, captured := w.captures[s]; !captured {
			w.host.join(clock{s: st.clock[s]})
		}
	}
	return nil
}

// Mark queues a mark. It may be queued even if the call fails.
func (w *world) Mark(s bfc.Stream, mark uint64) error {
	w.requireThere(s)
	st := w.streams[s]
	require.NotContains(w.t, w.captures, s, "a mark for a capture")
	require.Greater(w.t, mark, st.last, "marks count upwards")
	require.False(w.t, st.ended, "a mark for a stream that has ended")
	st.last = mark
	if w.capturing[s] {
		return errRefused
	}
	err := w.call("mark")
	if err == nil || mark%2 == 0 {
		st.queued = append(st.queued, queuedMark{mark: mark})
		st.marks[mark] = maps.Clone(st.clock)
	}
	return err
}

// Passed updates the host's clock.
func (w *world) Passed(s bfc.Stream) uint64 {
	require.False(w.t, w.quiet, "Passed was called")
	st := w.streams[s]
	w.host.join(st.marks[st.passed])
	return st.passed
}

// Follow queues a wait.
func (w *world) Follow(s, other bfc.Stream, mark uint64) error {
	w.requireThere(s)
	require.NotEqual(w.t, s, other)
	require.Contains(w.t, w.streams[other].marks, mark, "a wait for a mark that was not queued")
	if err := w.call("follow"); err != nil {
		return err
	}
	st := w.streams[s]
	require.False(w.t, st.ended || w.capturing[s])
	require.NotContains(w.t, w.captures, s, "a wait in a captured stream")
	st.queued = append(st.queued, queuedMark{mark: mark, waits: true, other: other})
	st.clock.join(w.streams[other].marks[mark])
	return nil
}

// Sync runs the device until the mark is passed.
func (w *world) Sync(s bfc.Stream, mark uint64) error {
	require.Contains(w.t, w.streams[s].marks, mark)
	if err := w.call("sync"); err != nil {
		return err
	}
	for w.streams[s].passed < mark {
		w.runOne()
	}
	w.Passed(s)
	return nil
}

// runOne lets the device pass one entry of the lowest stream that is not waiting.
func (w *world) runOne() {
	for _, s := range slices.Sorted(maps.Keys(w.streams)) {
		if w.advance(s) {
			return
		}
	}
	require.Fail(w.t, "no stream can go on")
}

// advance lets the device pass the next entry of a stream, and returns whether it could.
func (w *world) advance(s bfc.Stream) bool {
	st := w.streams[s]
	if len(st.queued) == 0 {
		return false
	}
	next := st.queued[0]
	if next.waits {
		if w.streams[next.other].passed < next.mark {
			return false
		}
	} else {
		st.passed = next.mark
	}
	st.queued = st.queued[1:]
	return true
}

// work queues work of a stream that touches a block.
func (w *world) work(s bfc.Stream, b bfc.Block) {
	st := w.streams[s]
	st.clock[s]++
	for unit := b.Addr / 256; unit < (b.Addr+b.Bytes)/256; unit++ {
		if w.units[unit] == nil {
			w.units[unit] = clock{}
		}
		w.units[unit][s] = st.clock[s]
	}
}

// allocate checks the result, and queues work that uses it.
func (w *world) allocate(s bfc.Stream, bytes uint64) (bfc.Block, error) {
	w.named = s
	defer func() { w.named = 0 }()
	b, err := w.a.AllocateFor(s, bytes, holder.ID(len(w.live)%5))
	if err != nil {
		require.Equal(w.t, status.ResourceExhausted, status.CodeOf(err), "%v", err)
		return b, err
	}
	if bytes == 0 {
		return b, nil
	}
	for _, other := range w.live {
		require.False(w.t, other.Addr < b.Addr+b.Bytes && b.Addr < other.Addr+other.Bytes, "two blocks overlap")
	}
	w.judge(s, b)
	w.live = append(w.live, worldBlock{Block: b, stream: s})
	w.work(s, b)
	return b, nil
}

// watch checks that no work may touch memory that the pool unmaps, and clears its units for the next user of the
// addresses.
func (w *world) watch(device *fakedevice.VirtualDevice) {
	device.Unmapping = func(addr uint64) {
		for unit := addr / 256; unit < (addr+device.GranuleBytes)/256; unit++ {
			for s, last := range w.units[unit] {
				require.LessOrEqual(w.t, last, w.host[s], "work of stream %d may still touch %#x, which is unmapped",
					s, unit*256)
			}
			delete(w.units, unit)
		}
	}
}

// endWatch ends the watch before Close if Close cannot wait for all work: it frees the memory nevertheless.
func (w *world) endWatch(device *fakedevice.VirtualDevice) {
	if w.refuse != nil || len(w.captures) > 0 {
		device.Unmapping = nil
	}
}

func (w *world) judge(s bfc.Stream, b bfc.Block) {
	mine := w.streams[s].clock
	for unit := b.Addr / 256; unit < (b.Addr+b.Bytes)/256; unit++ {
		for other, last := range w.units[unit] {
			require.True(w.t, other == s || last <= mine[other] || last <= w.host[other],
				"work %d of stream %d may still touch %#x, which stream %d got; it comes after %d, the host knows "+
					"of %d",
				last, other, unit*256, s, mine[other], w.host[other])
		}
	}
}

// record records that a stream uses a block, and queues work that does.
func (w *world) record(at int, s bfc.Stream) {
	b := &w.live[at]
	require.NoError(w.t, w.a.RecordStream(b.Addr, s))
	b.users = append(b.users, s)
	w.work(s, b.Block)
}

func (w *world) free(at int) {
	b := w.live[at]
	w.live = slices.Delete(w.live, at, at+1)
	require.NoError(w.t, w.a.FreeID(b.Addr, b.ID))
}

func (w *world) freeOn(at int, s bfc.Stream) {
	b := w.live[at]
	w.work(s, b.Block)
	w.live = slices.Delete(w.live, at, at+1)
	w.named = s
	require.NoError(w.t, w.a.FreeOn(b.Addr, s))
	w.named = 0
}

func (w *world) end(s bfc.Stream) error {
	err := w.a.EndStream(s)
	if err == nil {
		w.streams[s].ended = true
	}
	return err
}

// check compares the accounting, and the cause of a failure.
func (w *world) check() {
	require.NoError(w.t, w.a.Check())
	var inUse uint64
	for _, b := range w.live {
		inUse += b.Bytes
	}
	stats := w.a.Stats()
	require.Equal(w.t, inUse, stats.BytesInUse)
	require.Equal(w.t, uint64(len(w.live)), stats.LiveBlocks)
	var mapped, free uint64
	for _, r := range w.a.MemoryMap().Regions {
		for _, c := range r.Chunks {
			mapped += c.Bytes
			if c.Free {
				free += c.Bytes
			}
		}
	}
	require.Equal(w.t, stats.BytesReserved, mapped)
	require.Equal(w.t, mapped-inUse, free)
}

// largestRun returns what one stream alone could have allocated without new memory.
func (w *world) largestRun() (largest uint64) {
	for _, r := range w.a.MemoryMap().Regions {
		var run uint64
		for _, c := range r.Chunks {
			if run += c.Bytes; !c.Free || c.Captured {
				run = 0
			}
			largest = max(largest, run)
		}
	}
	return largest
}

// capture starts to capture a stream, in which nothing is queued from now on, and returns the owner of the captured
// memory.
func (w *world) capture(of bfc.Stream) bfc.Stream {
	p := must.OK(w.a.NewCapture(of))(w.t)
	w.addStream(p)
	w.captures[p], w.capturing[of] = of, true
	return p
}

// graphEnds ends the last launch of a graph.
func (w *world) graphEnds(p bfc.Stream) {
	st := w.streams[p]
	w.host.join(clock{p: st.clock[p]})
	require.NoError(w.t, w.a.EndCapture(p))
	st.ended = true
	for i := range w.live {
		if b := &w.live[i]; b.stream == p {
			b.stream = w.captures[p]
		} else {
			b.users = slices.DeleteFunc(b.users, func(s bfc.Stream) bool { return s == p })
		}
	}
	delete(w.captures, p)
}

// mustNotHaveHelped checks a failure: no stream's free memory would have served the request.
func (w *world) mustNotHaveHelped(bytes uint64, err error) {
	var oom *bfc.OutOfMemory
	require.ErrorAs(w.t, err, &oom)
	if oom.Cause == bfc.PendingStreams {
		require.True(w.t, errors.Is(err, errRefused) || w.fleeting != nil && strings.Contains(err.Error(),
			"would invalidate the capture"), "%v", err)
		require.GreaterOrEqual(w.t, w.largestRun(), oom.Rounded)
		return
	}
	require.Less(w.t, w.largestRun(), oom.Rounded, "%v", err)
}
