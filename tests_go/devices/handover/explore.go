package handover

import (
	"math/bits"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
)

// Stepped is a driver that executes each piece of work on request, as stepped machines of tests_go/machine/simulated
// do.
type Stepped interface {
	gpu.Driver
	Steppable(ordinal int) []gpu.Stream
	Step(ordinal int, stream gpu.Stream) (ran bool)
	Drain()
}

// How selects how a program is run.
type How struct {
	Plain bool // also run interleavings that differ only in irrelevant ways
	// Fresh runs each interleaving on its own pool, on which one stream has worked, instead of on one pool that all
	// streams have used before.
	Fresh bool
}

// Exhaust runs a program in all its interleavings, and counts them.
func Exhaust(t require.TestingT, driver Stepped, program Program, how How) (runs int) {
	e := &explorer{w: newWorld(t, driver, program, true), device: driver, How: how}
	for more := true; more; {
		if how.Fresh {
			e.w.reset()
		} else {
			e.w.begin(e.drain)
		}
		if e.run() {
			runs++
		}
		if more = e.backtrack(); more && how.Fresh {
			e.w.close(driver.Drain)
			e.w = newWorld(t, driver, program, true)
		}
	}
	e.w.close(driver.Drain)
	return runs
}

// actors are a set, as bits. An actor is a thread, or a stream whose work the device executes; streams are numbered
// after the threads.
type actors uint

// explorer walks the tree of choices, depth first. It reaches each leaf from the root, because no step can be undone.
type explorer struct {
	How
	w      *world
	device Stepped
	path   []choice
}

// choice is the index that was taken, of so many.
type choice struct{ taken, of int }

// run executes one interleaving from start to end. It returns false if another one has covered the same.
func (e *explorer) run() (whole bool) {
	asleep := actors(0)
	for depth := 0; ; depth++ {
		enabled := e.enabled()
		if enabled == 0 {
			e.finish()
			return true
		}
		awake := enabled &^ asleep
		if awake == 0 {
			e.drain()
			e.finish()
			return false
		}
		chosen, before := e.choose(depth, awake)
		if !e.Plain {
			asleep = e.independents(asleep|before, chosen)
		}
		e.do(chosen)
	}
}

// choose makes the next choice of the path. before are the choices made at this place in earlier runs.
func (e *explorer) choose(depth int, awake actors) (chosen int, before actors) {
	if depth == len(e.path) {
		e.path = append(e.path, choice{0, bits.OnesCount(uint(awake))})
	}
	if e.path[depth].of != bits.OnesCount(uint(awake)) {
		require.Fail(e.w.t, "the same steps have come to something else")
	}
	for range e.path[depth].taken {
		lowest := awake & -awake
		before |= lowest
		awake &^= lowest
	}
	return bits.TrailingZeros(uint(awake)), before
}

// backtrack changes the last choice that has an alternative, for the next run.
func (e *explorer) backtrack() (more bool) {
	for len(e.path) > 0 {
		last := &e.path[len(e.path)-1]
		if last.taken++; last.taken < last.of {
			return true
		}
		e.path = e.path[:len(e.path)-1]
	}
	return false
}

func (e *explorer) enabled() (set actors) {
	w := e.w
	for thread := range w.program.Threads {
		if op := w.next(thread); op != nil && (op.do != synchronize || len(w.order.ahead[op.stream]) == 0) {
			set |= 1 << thread
		}
	}
	for _, stream := range e.device.Steppable(0) {
		set |= 1 << (len(w.program.Threads) + w.order.slot(stream))
	}
	return set
}

func (e *explorer) do(actor int) {
	w := e.w
	if actor < len(w.program.Threads) {
		w.step(actor)
		return
	}
	e.deviceStep(actor - len(w.program.Threads))
}

func (e *explorer) deviceStep(s int) {
	if !e.device.Step(0, e.w.order.streams[s]) {
		require.Failf(e.w.t, "a stream does not go on", "%d", s)
	}
	e.w.order.done(s)
}

// drain lets the device execute all queued work.
func (e *explorer) drain() {
	e.device.Drain()
	for s, stream := range e.w.order.streams {
		done, err := e.device.StreamQuery(0, stream)
		e.w.must(err)
		if done {
			e.w.order.ahead[s] = e.w.order.ahead[s][:0]
		}
	}
}

func (e *explorer) finish() {
	for s, left := range e.w.order.ahead {
		if len(left) > 0 {
			require.Failf(e.w.t, "a stream waits for ever", "%d, for %v", s, left[0])
		}
	}
	for thread := range e.w.program.Threads {
		e.w.at[thread] = 0
	}
	e.w.finish()
}

// independents returns the actors of a set whose steps commute with an actor's step.
func (e *explorer) independents(set actors, actor int) (kept actors) {
	for rest := set; rest != 0; rest &= rest - 1 {
		other := bits.TrailingZeros(uint(rest))
		if other != actor && e.independent(min(other, actor), max(other, actor)) {
			kept |= 1 << other
		}
	}
	return kept
}

// independent reports whether two actors' next steps commute; threads come first.
func (e *explorer) independent(a, b int) bool {
	w, threads := e.w, len(e.w.program.Threads)
	switch {
	case b < threads:
		return w.independentOps(w.next(a), w.next(b))
	case a < threads:
		return w.independentOfDevice(w.next(a), b-threads)
	default:
		return w.independentPieces(a-threads, b-threads)
	}
}

// independentOps: operations that queue work in streams that do not wait for each other.
func (w *world) independentOps(a, b *Op) bool {
	for _, x := range a.queuesIn() {
		for _, y := range b.queuesIn() {
			if x == y || w.program.Streams[x].ordered() && w.program.Streams[y].ordered() {
				return false
			}
		}
	}
	return a.queues() && b.queues() && a.do != join && b.do != join // one event serves all joins
}

func (op *Op) queues() bool { return op.do == write || op.do == check || op.do == join }

func (op *Op) queuesIn() []int {
	if op.do == join {
		return []int{op.stream, op.after}
	}
	return []int{op.stream}
}

// independentOfDevice: the device takes work from the front of a queue, a thread appends to its end. The pool sees the
// device's progress through marks.
func (w *world) independentOfDevice(op *Op, s int) bool {
	switch op.do {
	case write, check:
		return true
	case synchronize:
		return op.stream != s
	case join:
		return false
	default:
		return !w.order.ahead[s][0].marks
	}
}

// independentPieces: work of two streams that touches no common byte and does not unblock the other.
func (w *world) independentPieces(a, b int) bool {
	x, y := w.order.ahead[a][0], w.order.ahead[b][0]
	switch {
	case w.program.Streams[a].ordered() && w.program.Streams[b].ordered():
		return false
	case x.marks && y.wait || x.wait && y.marks:
		return false
	default:
		return x.to <= y.from || y.to <= x.from
	}
}

// Sample runs a program in random interleavings of its threads, on a device that works by itself.
func Sample(t require.TestingT, driver gpu.Driver, program Program, runs int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, driver, program, false)
	wait := func() {
		for _, stream := range w.order.streams {
			require.NoError(t, driver.StreamSynchronize(0, stream))
		}
	}
	var ready []int
	for range runs {
		w.begin(wait)
		for {
			ready = ready[:0]
			for thread := range program.Threads {
				if w.next(thread) != nil {
					ready = append(ready, thread)
				}
			}
			if len(ready) == 0 {
				break
			}
			w.step(ready[random.IntN(len(ready))])
		}
		wait()
		w.finish()
	}
	w.close(func() {}) // the device works by itself
}
