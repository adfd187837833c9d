// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
)

// timeline tracks the progress of a pool's streams for its allocator. It allocates nothing until a second stream is
// used.
//
// A mark is a number that the stream itself writes into a word of page-locked host memory, one word for each stream, so
// reading the progress is one load. If streams cannot write memory, a mark is an event, and reading the progress is a
// query.
type timeline struct {
	driver  gpu.Driver
	device  gpu.Device
	numbers *streamNumbers

	uses []wordUse // by stream; guarded by the allocator's mutex

	mu     sync.Mutex
	words  atomic.Pointer[gpu.HostMemory] // written with mu held; nil before the first mark
	events map[bfc.Stream][]mark          // guarded by mu; oldest first; used if streams cannot write words
	passed map[bfc.Stream]uint64          // guarded by mu; the last mark seen to have passed, with events
}

// mark is an event queued in a stream, and its number.
type mark struct {
	number uint64
	event  gpu.Event
}

// wordUse is what may still be queued in a stream that writes or reads words.
type wordUse struct {
	tried uint64 // the number of its last mark, which may have been queued even if the call failed
	waits bool   // it follows other streams, and no mark was queued since
}

const (
	wordBytes  = 8
	pageBytes  = 64 << 10 // words for 8192 streams
	syncNap    = 20 * time.Microsecond
	longestNap = time.Millisecond
	checkEvery = 64 // naps between two checks of the context
)

var _ bfc.Timeline = (*timeline)(nil)

// Lasting reports whether a stream is never destroyed. The per-thread default stream's marks are in the legacy one.
func (t *timeline) Lasting(s bfc.Stream) bool {
	h := t.numbers.handle(s)
	return h.lasting || isLegacy(h.marks) && !h.key.captured
}

// Mark queues a mark behind all work in the stream, unless the stream is being captured (invariant 5).
func (t *timeline) Mark(s bfc.Stream, number uint64) error {
	use := t.use(s)
	use.tried = number
	err := t.mark(s, number)
	if err == nil {
		use.waits = false // behind the mark
	}
	return err
}

func (t *timeline) use(s bfc.Stream) *wordUse {
	if more := int(s) + 1 - len(t.uses); more > 0 {
		t.uses = append(t.uses, make([]wordUse, more)...)
	}
	return &t.uses[s]
}

func (t *timeline) mark(s bfc.Stream, number uint64) error {
	stream := t.numbers.handle(s).marks
	if err := errIfCaptured(t.driver, t.device, stream); err != nil {
		return err
	}
	if !t.device.StreamMemOps {
		return t.markByEvent(s, stream, number)
	}
	word, err := t.word(s)
	if err != nil {
		return err
	}
	return t.driver.StreamWriteValue64(t.device.Ordinal, stream, word, number)
}

// SyncAll waits for all work of the GPU. It would invalidate a capture, so it fails if a lasting or a blocking stream
// is being captured (invariant 5).
func (t *timeline) SyncAll() error {
	if err := t.numbers.errIfAnyCaptured(); err != nil {
		return err
	}
	if err := t.driver.ContextSynchronize(t.device.Ordinal); err != nil {
		return err
	}
	for s := range t.uses {
		t.uses[s].waits = false
	}
	return nil
}

// openLocked creates the tables of events.
func (t *timeline) openLocked() {
	if t.events == nil {
		t.events, t.passed = map[bfc.Stream][]mark{}, map[bfc.Stream]uint64{}
	}
}

// Passed returns the last mark that the GPU has reached.
func (t *timeline) Passed(s bfc.Stream) uint64 {
	if !t.device.StreamMemOps {
		return t.passedByEvent(s)
	}
	words := t.words.Load()
	if words == nil || int(s) >= len(words.Words) {
		return 0
	}
	return atomic.LoadUint64(&words.Words[s])
}

// Follow makes all later work of a stream wait for a mark of another stream.
func (t *timeline) Follow(s, other bfc.Stream, number uint64) error {
	stream := t.numbers.handle(s).work
	if err := errIfCaptured(t.driver, t.device, stream); err != nil {
		return err
	}
	if !t.device.StreamMemOps {
		event, pending := t.eventOf(other, number)
		if !pending {
			return nil
		}
		return t.driver.StreamWaitEvent(t.device.Ordinal, stream, event)
	}
	word, err := t.word(other)
	if err != nil {
		return err
	}
	t.use(s).waits = true
	return t.driver.StreamWaitValue64(t.device.Ordinal, stream, word, number)
}

// Sync waits for a mark. It polls, because the stream may have been destroyed since. A broken context never writes the
// mark, so now and then it makes a call that fails if the context is broken.
func (t *timeline) Sync(s bfc.Stream, number uint64) error {
	for naps, nap := 1, syncNap; t.Passed(s) < number; naps, nap = naps+1, min(2*nap, longestNap) {
		if event, pending := t.eventOf(s, number); pending {
			return t.driver.EventSynchronize(t.device.Ordinal, event)
		}
		timer := time.NewTimer(nap)
		<-timer.C
		if naps%checkEvery != 0 {
			continue
		}
		if _, _, err := t.driver.MemGetInfo(t.device.Ordinal); err != nil {
			return err
		}
	}
	return nil
}

// word returns the address of a stream's word.
func (t *timeline) word(s bfc.Stream) (addr uint64, err error) {
	words := t.words.Load()
	if words == nil {
		if words, err = t.makeWords(); err != nil {
			return 0, err
		}
	}
	if int(s) >= len(words.Words) {
		return 0, status.Errorf(status.ResourceExhausted, "GPU:%d supports at most %d streams", t.device.Ordinal,
			len(words.Words))
	}
	return words.Addr + uint64(s)*wordBytes, nil
}

func (t *timeline) makeWords() (*gpu.HostMemory, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if words := t.words.Load(); words != nil {
		return words, nil
	}
	words, err := t.driver.MemHostAlloc(t.device.Ordinal, pageBytes)
	if err != nil {
		return nil, fmt.Errorf("cannot allocate page-locked memory for a timeline: %w", err)
	}
	for i := range words.Words {
		atomic.StoreUint64(&words.Words[i], 0)
	}
	t.words.Store(&words)
	return &words, nil
}

func (t *timeline) markByEvent(s bfc.Stream, stream gpu.Stream, number uint64) error {
	event, err := t.driver.EventCreate(t.device.Ordinal)
	if err != nil {
		return err
	}
	if err := t.driver.EventRecord(t.device.Ordinal, event, stream); err != nil {
		return errors.Join(err, t.driver.EventDestroy(t.device.Ordinal, event))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.openLocked()
	t.events[s] = append(t.events[s], mark{number, event})
	return nil
}

// passedByEvent queries the oldest pending marks and destroys the events that have passed.
func (t *timeline) passedByEvent(s bfc.Stream) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.events[s]) > 0 {
		oldest := t.events[s][0]
		if done, err := t.driver.EventQuery(t.device.Ordinal, oldest.event); err != nil || !done {
			break
		}
		_ = t.driver.EventDestroy(t.device.Ordinal, oldest.event) // no longer needed
		t.events[s] = t.events[s][1:]
		t.passed[s] = max(t.passed[s], oldest.number)
	}
	return t.passed[s]
}

// eventOf finds the first event at or after a mark; pending is false if the mark has passed or is not an event.
func (t *timeline) eventOf(s bfc.Stream, number uint64) (event gpu.Event, pending bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.events[s] {
		if m.number >= number {
			return m.event, true
		}
	}
	return 0, false
}

// close releases the words and the events. The allocator is already closed. Words that a stream may still write or read
// stay until the context ends, which is often later: other pools and other libraries retain it too (invariant 7).
func (t *timeline) close() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, marks := range t.events {
		for _, m := range marks {
			err = errors.Join(err, t.driver.EventDestroy(t.device.Ordinal, m.event))
		}
	}
	t.events, t.passed = nil, nil
	if words := t.words.Swap(nil); words != nil && t.unused(words) {
		err = errors.Join(err, t.driver.MemFreeHost(t.device.Ordinal, words.Addr))
	}
	return err
}

// unused reports whether no queued work writes or reads words.
func (t *timeline) unused(words *gpu.HostMemory) bool {
	for s, use := range t.uses {
		if use.waits || s < len(words.Words) && atomic.LoadUint64(&words.Words[s]) < use.tried {
			return false
		}
	}
	return true
}
