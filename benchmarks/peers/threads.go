package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"gpuconf/tests_go/pool/traces"
)

// threadsTiming is the speed of one contender with several threads.
type threadsTiming struct {
	MopsPerSecond float64 `json:"mops"` // operations of all threads, in millions; of the best round
	// P999 is in ns, of the operations of all threads, including the clock's own, and the minimum of the rounds.
	P999 float64 `json:"p999"`
}

// threadsTrace is what each thread replays. The sizes are those that every contender serves itself.
func threadsTrace() traces.Trace {
	return traces.Churn("threads", 1_000, 200_000, 512, 64<<10)
}

// threads races every contender that several threads may use.
func (b *bench) threads() error {
	trace := threadsTrace()
	var list []contender
	for _, c := range b.contenders {
		if !c.shares || c.league == bare || !slices.Contains(threadContenders, c.name) {
			continue
		}
		if _, err := c.verify(&trace); err != nil {
			b.exclude(c, &trace, err.Error(), true)
			continue
		}
		list = append(list, c)
	}
	for _, each := range []bool{false, true} {
		for _, count := range []int{1, 2, 4, 16} {
			r := threadsResult{count, each, map[string]threadsTiming{}}
			for round := range min(b.rounds, mostThreadRounds) {
				for i := range list {
					c := list[(i+round)%len(list)]
					one, err := c.timeThreads(&trace, count, each)
					if err != nil {
						return fmt.Errorf("%d threads, %s: %w", count, c.name, err)
					}
					r.Times[c.name] = r.Times[c.name].with(one)
				}
			}
			b.result.Threads = append(b.result.Threads, r)
			b.progress("%d threads, a pool each: %v", count, each)
		}
	}
	return nil
}

const mostThreadRounds = 3

// threadContenders are made for several threads. The others of the equal league are wrapped in one mutex.
var threadContenders = []string{oursExact, "TensorFlow's BFCAllocator", "RMM's arena", "mimalloc"}

func (t threadsTiming) with(one threadsTiming) threadsTiming {
	if t.MopsPerSecond == 0 {
		return one
	}
	return threadsTiming{max(t.MopsPerSecond, one.MopsPerSecond), min(t.P999, one.P999)}
}

// timeThreads runs the threads twice: once for the throughput, and once with each operation timed.
func (c contender) timeThreads(trace *traces.Trace, count int, each bool) (t threadsTiming, err error) {
	ops := trace.Ops[trace.Warm:]
	took, err := c.runThreads(trace, count, each, nil)
	if err != nil {
		return t, err
	}
	nanos := make([]uint32, count*len(ops))
	if _, err = c.runThreads(trace, count, each, nanos); err != nil {
		return t, err
	}
	slices.Sort(nanos)
	return threadsTiming{float64(count*len(ops)) / took.Seconds() / 1e6, float64(nanos[len(nanos)-1-len(nanos)/1000])},
		nil
}

// runThreads opens the pools and replays the trace in every thread. It returns the time from the moment at which all
// threads were warm to the last one's end.
func (c contender) runThreads(trace *traces.Trace, count int, each bool, nanos []uint32) (time.Duration, error) {
	pools, err := c.openForThreads(trace, count, each)
	defer func() {
		for _, p := range slices.Backward(pools) { // the one that owns the allocator comes last
			p.close()
		}
	}()
	if err != nil {
		return 0, err
	}
	if _, is := pools[0].(*ourPool); !is {
		// A thread in C needs one of Go's processors only to begin. With as many as threads, they begin together.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(count, runtime.NumCPU())))
	}
	runtime.GC() // so that none runs during the timing
	g := &threadGroup{begin: make(chan struct{}), ends: make([]time.Duration, count), failures: make([]error, count)}
	g.warm.Add(count)
	for i, p := range pools {
		var own []uint32
		if nanos != nil {
			own = nanos[i*len(nanos)/count : (i+1)*len(nanos)/count]
		}
		g.done.Go(func() { g.ends[i], g.failures[i] = g.run(p, trace, own) })
	}
	g.warm.Wait()
	begin := time.Since(origin)
	close(g.begin)
	g.done.Wait()
	return slices.Max(g.ends) - begin, errors.Join(g.failures...)
}

// openForThreads returns a pool for each thread.
func (c contender) openForThreads(trace *traces.Trace, count int, each bool) (pools []pool, err error) {
	bytes := uint64(count) * trace.LimitBytes
	if each {
		bytes = trace.LimitBytes
	}
	for len(pools) < count {
		if len(pools) > 0 && !each {
			pools = append(pools, pools[0].beside(trace.Blocks))
			continue
		}
		p, err := c.open(bytes, trace.Blocks)
		if err != nil {
			return pools, err
		}
		pools = append(pools, p)
	}
	return pools, nil
}

// threadGroup is one run of several threads.
type threadGroup struct {
	warm, done sync.WaitGroup
	begin      chan struct{} // closed when all are warm
	ends       []time.Duration
	failures   []error
}

// run is one thread. It does everything itself, because some contenders have a heap for each thread.
func (g *threadGroup) run(p pool, trace *traces.Trace, nanos []uint32) (end time.Duration, err error) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	_, err = p.run(trace.Ops[:trace.Warm], nil, nil)
	g.warm.Done()
	if err != nil {
		return 0, err
	}
	<-g.begin
	if _, err = p.run(trace.Ops[trace.Warm:], nil, nanos); err != nil {
		return 0, err
	}
	end = time.Since(origin)
	ops, left := withFrees(trace)
	_, err = p.run(ops[left:], nil, nil)
	return end, err
}
