package main

import (
	"fmt"
	"runtime"
	"slices"

	"gpuconf/tests_go/pool/traces"
)

// timing is the speed of one contender on one trace, in ns for each operation.
type timing struct {
	Best float64 `json:"best"` // of all rounds
	// P999 is of the times of single operations, including the clock's own, and the minimum of the rounds. 0: not
	// measured.
	P999   float64 `json:"p999"`
	Rounds int     `json:"rounds"`
}

// window is the timed part of a trace.
type window struct {
	warm, end int
	rounds    int
}

// windowOf leaves out the operations that build up the state, at least a tenth, which includes the first access to
// fresh tables. A slow contender gets 2000 operations, once, if there are many blocks.
func windowOf(c contender, trace *traces.Trace, rounds int) window {
	w := window{warm: max(trace.Warm, len(trace.Ops)/10), end: len(trace.Ops), rounds: rounds}
	if c.slow() && trace.Blocks > 5_000 {
		w.end, w.rounds = min(w.warm+2_000, w.end), 1
	}
	return w
}

// race times contenders on one trace. They alternate, each with a new pool, in another order every round.
func race(contenders []contender, trace *traces.Trace, rounds int, tails bool) (map[string]timing, error) {
	found := map[string]timing{}
	for round := range rounds {
		for i := range contenders {
			c := contenders[(i+round)%len(contenders)]
			w := windowOf(c, trace, rounds)
			if round >= w.rounds {
				continue
			}
			one, err := c.time(trace, w, tails && round < 3)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", trace.Name, c.name, err)
			}
			found[c.name] = found[c.name].with(one)
		}
	}
	return found, nil
}

func (t timing) with(one timing) timing {
	if t.Rounds == 0 {
		t = one
	}
	t.Best = min(t.Best, one.Best)
	if one.P999 > 0 {
		t.P999 = min(t.P999, one.P999)
	}
	t.Rounds++
	return t
}

// time runs one round of one contender and, with tail, another one in which each operation is timed.
func (c contender) time(trace *traces.Trace, w window, tail bool) (timing, error) {
	ns, err := c.once(trace, w, nil)
	t := timing{Best: float64(ns) / float64(w.end-w.warm)}
	if err != nil || !tail {
		return t, err
	}
	nanos := make([]uint32, w.end-w.warm)
	if _, err = c.once(trace, w, nanos); err == nil {
		slices.Sort(nanos)
		t.P999 = float64(nanos[len(nanos)-1-len(nanos)/1000])
	}
	return t, err
}

func (c contender) once(trace *traces.Trace, w window, nanos []uint32) (int64, error) {
	p, err := c.open(trace.LimitBytes, trace.Blocks)
	if err != nil {
		return 0, err
	}
	defer p.close()
	if c.inBand() {
		ops, _ := withFrees(trace)
		if _, err := p.run(ops, nil, nil); err != nil {
			// once, so that the first access to the system's pages is not timed
			return 0, err
		}
	}
	if _, err := p.run(trace.Ops[:w.warm], nil, nil); err != nil {
		return 0, err
	}
	runtime.GC() // so that none runs during the timing
	return p.run(trace.Ops[w.warm:w.end], nil, nanos)
}
