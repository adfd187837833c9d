package main

import (
	"fmt"
	"os"
	"time"

	"gpuconf/gocore/plan/plan"
	"gpuconf/tests_go/pool/traces"
)

// bench is one run.
type bench struct {
	contenders []contender
	objects    []string // arguments that open the same contenders in a child
	rounds     int
	minimalloc string // a folder; empty: without its problems
	begin      time.Time
	result     result
}

// The traces of the slope and of the footprints.
const (
	slopeOps       = 200_000
	footprintLaw   = "churn-1MiB"
	largeFootprint = "churn-8MiB"
	largePool      = 139 << 30
)

// oursVirtual is our allocator with virtual memory management; only its need of device memory is reported here.
const oursVirtual = "gpuconf, virtual"

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(b.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (b *bench) run(task string) error {
	b.result.ClockNanos = map[string]float64{"Go": best(20, ourClock), "C": best(20, foreignClock)}
	steps := []func() error{b.laws, b.small, b.slope, b.floor, b.threads, b.footprints, b.needs, b.recorded}
	if task == taskRecorded {
		steps = []func() error{b.recorded}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// mostVerified is the number of blocks up to which a trace is verified. Slow contenders are verified once.
const mostVerified = 200_000

// fit returns the contenders of a league that replay a trace correctly.
func (b *bench) fit(l league, trace *traces.Trace, small bool) (list []contender) {
	for _, c := range b.contenders {
		if c.league != l || c.small() && !small {
			continue
		}
		if why := c.unfit(trace); why != "" {
			b.exclude(c, trace, why, false)
			continue
		}
		if trace.Blocks > mostVerified || c.slow() && l == bare && trace.Blocks > 5_000 {
			list = append(list, c)
			continue
		}
		if _, err := c.verify(head(c, trace)); err != nil {
			b.exclude(c, trace, err.Error(), true)
			continue
		}
		list = append(list, c)
	}
	return list
}

func (b *bench) exclude(c contender, trace *traces.Trace, why string, broken bool) {
	b.progress("%s: %s is out: %s", trace.Name, c.name, why)
	b.result.Out = append(b.result.Out, exclusion{c.name, c.league, trace.Name, why, broken})
}

// head returns the part of a trace that a slow contender runs in a race too.
func head(c contender, trace *traces.Trace) *traces.Trace {
	w := windowOf(c, trace, 1)
	if w.end == len(trace.Ops) {
		return trace
	}
	part := *trace
	part.Ops = trace.Ops[:w.end]
	part.PeakBytes = peakOf(part.Ops, part.Blocks)
	return &part
}

func peakOf(ops []traces.Op, blocks int) (peak uint64) {
	sizes, live := make([]uint64, blocks), uint64(0)
	for _, op := range ops {
		live += op.Bytes - sizes[op.Block]
		sizes[op.Block] = op.Bytes
		peak = max(peak, live)
	}
	return peak
}

func (b *bench) law(trace *traces.Trace, leagues []league, rounds int, small, tails bool) (lawResult, error) {
	r := lawResult{trace.Name, trace.Blocks, trace.PeakBytes, map[league]map[string]timing{}}
	for _, l := range leagues {
		found, err := race(b.fit(l, trace, small), trace, rounds, tails)
		if err != nil {
			return r, err
		}
		r.Leagues[l] = found
		b.progress("%s, %s league: %d contenders", trace.Name, l, len(found))
	}
	return r, nil
}

func (b *bench) laws() error {
	for _, trace := range traces.Laws() {
		r, err := b.law(&trace, []league{equal, bare}, b.rounds, false, true)
		if err != nil {
			return err
		}
		b.result.Laws = append(b.result.Laws, r)
	}
	return nil
}

// small is also for allocators of small sizes.
func (b *bench) small() error {
	for _, trace := range []traces.Trace{traces.HotPair(), traces.Churn("churn-64KiB", 10_000, 200_000, 512, 64<<10)} {
		r, err := b.law(&trace, []league{equal}, b.rounds, true, false)
		if err != nil {
			return err
		}
		b.result.Small = append(b.result.Small, r)
	}
	return nil
}

func (b *bench) slope() error {
	for _, live := range []int{1_000, 10_000, 100_000, 1_000_000} {
		trace := traces.Churn(fmt.Sprintf("slope-%d", live), live, slopeOps, 512, 1<<20)
		// the table of an allocator for the whole pool is as short as possible
		trace.LimitBytes = trace.PeakBytes + trace.PeakBytes/4
		r, err := b.law(&trace, []league{equal}, min(b.rounds, max(2, 5_000_000/len(trace.Ops))), false, false)
		if err != nil {
			return err
		}
		b.result.Slope = append(b.result.Slope, r)
	}
	return nil
}

func (b *bench) footprints() error {
	for _, l := range []struct {
		law  string
		pool uint64
	}{{footprintLaw, 0}, {largeFootprint, largePool}} {
		for _, c := range b.contenders {
			if c.league != equal || c.small() || c.name == oursRule {
				continue
			}
			trace := lawNamed(l.law)
			if why := c.tooLarge(max(l.pool, trace.LimitBytes)); why != "" {
				b.exclude(c, trace, why, false)
				continue
			}
			f, err := footprintOf(c, l.law, l.pool, b.objects)
			if err != nil {
				return fmt.Errorf("host memory of %s: %w", c.name, err)
			}
			b.result.Footprints = append(b.result.Footprints, footprintResult{c.name, l.law, f})
		}
		b.progress("host memory, %s", l.law)
	}
	return nil
}

func lawNamed(name string) *traces.Trace {
	for _, trace := range traces.Laws() {
		if trace.Name == name {
			return &trace
		}
	}
	return nil
}

func (b *bench) needs() error {
	var problems []problem
	for _, trace := range traces.Laws()[1:] {
		problems = append(problems, problem{trace, "law", 0})
	}
	problems = append(problems, packings()...)
	if b.minimalloc != "" {
		theirs, err := minimalloc(b.minimalloc)
		if err != nil {
			return err
		}
		problems = append(problems, theirs...)
	}
	for _, p := range problems {
		r := needsResult{p.trace.Name, p.kind, p.trace.PeakBytes, p.optimum, b.needed(&p.trace)}
		least, err := leastLimits(eventsOf(&p.trace), plan.Virtual)
		if err != nil {
			return err
		}
		r.Needed[oursVirtual] = least[plan.Virtual]
		b.result.Needs = append(b.result.Needs, r)
		b.progress("memory that %s needs", p.trace.Name)
	}
	return nil
}

// needed returns the device memory that a trace needs by contender, and excludes those that do not replay it correctly.
func (b *bench) needed(trace *traces.Trace) map[string]uint64 {
	found := map[string]uint64{}
	for _, c := range b.contenders {
		if c.league != equal || c.small() {
			continue
		}
		if place, err := c.verify(trace); err != nil {
			b.exclude(c, trace, err.Error(), true)
		} else {
			found[c.name] = place.needed()
		}
	}
	return found
}

// clockReadings is how often a clock is read to find what one reading takes.
const clockReadings = 10_000

// ourClock is the time of reading the clock once in our loop.
func ourClock() float64 {
	start := time.Since(origin)
	var last time.Duration
	for range clockReadings {
		last = time.Since(origin)
	}
	return float64(last-start) / clockReadings
}
