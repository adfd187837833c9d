package handover

import (
	"math/bits"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/gpu"
)

// Stepped is a driver that does each piece of work when it is told to, as machines of tests_go/stepping do.
type Stepped interface {
	gpu.Driver
	Steppable(ordinal int) []gpu.Stream
	Step(ordinal int, stream gpu.Stream) (ran bool)
	Drain()
}

// How says how a program is run.
type How struct {
	Plain bool // also the interleavings that differ in nothing that matters
	Fresh bool // each on a pool of its own, on which one stream has worked; else on one that all streams have used before
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
			e.w.close()
			e.w = newWorld(t, driver, program, true)
		}
	}
	e.w.close()
	return runs
}

// An actor is a thread, or a stream whose work the device does: streams are counted behind the threads. Sets of them are bits.
type actors uint

// explorer walks the tree of choices, depth first. It goes to each leaf from the root, as nothing can be taken back.
type explorer struct {
	How
	w      *world
	device Stepped
	path   []choice
}

// choice is which one of so many was taken.
type choice struct{ taken, of int }

// run is one interleaving, from begin to end. It is false if another one has shown the same.
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

// choose takes the next choice of the path. before are those that were taken at this place in earlier runs.
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

// backtrack makes the next run differ in the last choice that leaves one.
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

// drain lets the device do all that is queued.
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

// independents are those of a set that give the same before and after an actor.
func (e *explorer) independents(set actors, actor int) (kept actors) {
	for rest := set; rest != 0; rest &= rest - 1 {
		other := bits.TrailingZeros(uint(rest))
		if other != actor && e.independent(min(other, actor), max(other, actor)) {
			kept |= 1 << other
		}
	}
	return kept
}

// independent judges two actors' next steps; threads come first.
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

// independentOps: work that is queued in streams of which none waits for another.
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

// independentOfDevice: the device takes work from the front of a queue, a thread puts some to its end; what tells the pool how far the device is
// are marks.
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

// independentPieces: work of two streams that touches no byte in common, and neither lets the other go on.
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

// Sample runs a program in random interleavings of its threads on a device that works by itself.
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
	w.close()
}
