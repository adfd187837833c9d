// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"math"
	"sync/atomic"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
)

// Request configures a Job.
type Request struct {
	LimitBytes uint64           // 0: find only the least limits
	Card       Card             // the GPU that the pools take memory from
	Policies   []Policy         // the allocators to try
	Recorded   caching.Settings // the settings of PyTorch when the trace was recorded
	TiesByAge  bool             // as in caching.Options, for that PyTorch
	// Starts are the segments that PyTorch's allocator had before the first event, by GPU, where they are known.
	Starts map[int][]caching.Segment
	Wanted bool // whether a failed allocation that ends the trace is replayed, too
	// PoolsLeft is whether nothing uses a private pool any more after its last event, which most traces do not say.
	PoolsLeft bool
	// Workspaces are the sizes of allocations that a job can do without, each with the most that it may be.
	Workspaces map[uint64]uint64
	Use        Use      // how large workspaces are
	Cards      []uint64 // what PyTorch may reserve on cards; a result has what it reserves there
}

// Use says how large the workspaces of a job are taken to be.
type Use string

// As recorded, the most that each may be, and none.
const (
	AsRecorded Use = ""
	Most       Use = "most"
	None       Use = "none"
)

// Job answers a Request. Its results do not depend on each other.
type Job struct {
	request   Request
	workloads []*workload
	results   []*Result
}

// Result is the outcome for one logical GPU under one policy. Sizes are bytes.
type Result struct {
	GPU    int    `json:"gpu"`    // the logical GPU's number
	Policy Policy `json:"policy"` // the allocator that was tried
	// Settings is what PYTORCH_CUDA_ALLOC_CONF needs for LeastLimit. "": nothing.
	Settings string `json:"settings"`
	Fits     *bool  `json:"fits"` // nil: no limit was requested
	// LeastLimit is the least limit under which the job fits, a multiple of 1 MiB. It is 0 until one is found.
	LeastLimit uint64   `json:"least_limit"`
	Failure    *Failure `json:"failure"` // under the requested limit; nil: the job fits, or no limit was requested
	// Measure is of the replay under the requested limit or, if the job does not fit it or none was requested, under
	// the least one.
	Measure *Measure `json:"measure"`
	// OnCards has what is reserved under each of Request.Cards; 0: the job does not fit there.
	OnCards []uint64 `json:"on_cards"`

	unlimited uint64 // what PyTorch reserves without a limit; 0: not known

	workload *workload
	variants []variant // that have not been tried; nil before the first
	search   *search   // for the first of them; nil: not begun
	best     variant
	least    *Measure // under the least limit so far
	done     bool
	replayed float64      // how often its job has been replayed
	progress atomic.Int64 // thousandths
}

// Usage summarizes what a trace does on one logical GPU. Sizes are bytes.
type Usage struct {
	GPU      int    `json:"gpu"`                  // the logical GPU's number
	Allocs   int    `json:"num_allocs"`           // allocations that a replay makes, except of what was live before
	PeakLive uint64 `json:"peak_bytes_in_use"`    // the most that is live, with sizes of trace.Event.Size
	PeakAsk  uint64 `json:"peak_bytes_requested"` // the requested sizes of the blocks that are live then
	// Needed is PeakLive with the allocation that failed at the end. It is 0 if there is none, or it is not replayed.
	Needed      uint64 `json:"needed_bytes"`
	BytesBefore uint64 `json:"bytes_before"`       // the sizes of blocks that were live when the trace began
	Before      int    `json:"live_blocks_before"` // the number of these blocks
	Live        int    `json:"live_blocks_after"`  // the number of blocks that are live at the end
	Failures    int    `json:"failures"`           // the number of allocations that failed when the trace was recorded
	Unfreed     int    `json:"unfreed"`            // blocks whose address was allocated again without a free
	Streams     int    `json:"streams"`            // the number of streams on which memory was allocated

	Holdings []Holding `json:"holders_at_peak"` // who holds the memory at the peak, the largest first
}

// New returns a Job that replays events.
func New(ctx context.Context, events []trace.Event, request Request) (*Job, error) {
	if len(request.Policies) == 0 {
		return nil, status.Errorf(status.InvalidArgument, "no policy was requested")
	}
	if len(events) > 1<<31-2 {
		return nil, status.Errorf(status.InvalidArgument, "a trace of %d events is too long", len(events))
	}
	list, err := workloads(ctx, events, request.Wanted, request.PoolsLeft)
	if err != nil {
		return nil, err
	}
	for _, w := range list {
		w.startFrom(request.Starts[w.gpu])
		if len(request.Workspaces) > 0 {
			w.markWorkspaces(request.Workspaces, request.Use)
		}
	}
	j := &Job{request: request, workloads: list}
	for _, w := range list {
		for _, policy := range request.Policies {
			j.results = append(j.results, &Result{GPU: w.gpu, Policy: policy, workload: w})
		}
	}
	return j, nil
}

// Len returns the number of results.
func (j *Job) Len() int { return len(j.results) }

// Determine determines a result by its number, or fails with the context's error. Several goroutines may determine
// different results at the same time.
func (j *Job) Determine(ctx context.Context, number int) error {
	for r := j.results[number]; !r.done; {
		if err := j.step(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// step runs at most one replay for a result.
func (j *Job) step(ctx context.Context, r *Result) error {
	if r.search == nil {
		return j.begin(ctx, r)
	}
	if limit, found := r.search.next(); !found {
		return j.try(ctx, r, limit*mib)
	} else if r.LeastLimit == 0 || limit*mib < r.LeastLimit {
		if r.LeastLimit > 0 {
			r.unlimited = 0 // that of the variant before
		}
		r.LeastLimit, r.best, r.Settings = limit*mib, r.variants[0], r.variants[0].text
	}
	r.search, r.variants = nil, r.variants[1:]
	if len(r.variants) > 0 {
		return nil
	}
	if err := j.finish(ctx, r); err != nil {
		return err
	}
	r.variants = nil
	r.progress.Store(thousandths)
	r.done = true
	return nil
}

// begin starts the search with the next variant.
func (j *Job) begin(ctx context.Context, r *Result) error {
	if r.LeastLimit > 0 {
		r.search = newChallenge(r.workload.peakLive, r.LeastLimit)
		return nil
	}
	r.variants = r.Policy.variants(j.request, r.workload.largest)
	r.search = newSearch(r.workload.peakLive)
	if !r.Policy.pytorch() || j.request.Recorded.GarbageThreshold > 0 {
		return nil
	}
	return j.try(ctx, r, 0) // what PyTorch's allocator reserves without a limit is enough
}

// try replays under a limit and records whether the job fits.
func (j *Job) try(ctx context.Context, r *Result, limitBytes uint64) error {
	o, err := r.workload.replay(ctx, r.variants[0], limitBytes, j.unlimited())
	if err != nil {
		return err
	}
	if limitBytes == 0 && o.failure == nil {
		r.unlimited = o.measure.PeakReserved
	}
	done := 1.0
	if o.failure != nil {
		done = float64(o.done) / float64(len(r.workload.ops))
	}
	r.search.record(o, done)
	r.replayed += done
	r.progress.Store(int64(thousandths * (1 - math.Pow(3.0/4, r.replayed))))
	if o.failure == nil {
		r.least = o.measure
	}
	return nil
}

// finish replays under the requested limit, and measures under the least one if the job does not fit or there is none.
func (j *Job) finish(ctx context.Context, r *Result) (err error) {
	if j.request.LimitBytes > 0 {
		o, err := r.workload.replay(ctx, r.best, j.request.LimitBytes, j.request.Card)
		if err != nil {
			return err
		}
		r.Measure, r.Failure = o.measure, o.failure
		fits := r.Failure == nil
		r.Fits = &fits
	}
	if r.Measure == nil {
		r.Measure = r.least
		r.Measure.Limit = r.LeastLimit
	}
	for _, limit := range j.request.Cards {
		reserved, err := j.reserved(ctx, r, limit)
		if err != nil {
			return err
		}
		r.OnCards = append(r.OnCards, reserved)
	}
	return nil
}

// reserved returns what is reserved under a limit; 0: the job does not fit.
func (j *Job) reserved(ctx context.Context, r *Result, limitBytes uint64) (uint64, error) {
	switch {
	case limitBytes+mib <= r.LeastLimit:
		return 0, nil
	case r.unlimited > 0 && r.unlimited <= limitBytes:
		return r.unlimited, nil
	}
	o, err := r.workload.replay(ctx, r.best, limitBytes, j.unlimited())
	if err != nil || o.failure != nil {
		return 0, err
	}
	return o.measure.PeakReserved, nil
}

// unlimited is the card without a limit of its own.
func (j *Job) unlimited() Card { return Card{GranuleBytes: j.request.Card.GranuleBytes} }

const thousandths = 1000

// Done returns how much of the job is done, from 0 to 1, and never less than before. It may be called at any time. How
// many replays a result needs is not known before: each counts for a quarter of what is left of the result.
func (j *Job) Done() float64 {
	var sum int64
	for _, r := range j.results {
		sum += r.progress.Load()
	}
	return float64(sum) / thousandths / float64(max(len(j.results), 1))
}

// Request returns the request.
func (j *Job) Request() Request { return j.request }

// Results returns the results. They are complete once all are determined.
func (j *Job) Results() []*Result { return j.results }

// Usages summarizes the trace, by GPU.
func (j *Job) Usages() (usages []Usage) {
	for _, w := range j.workloads {
		u := Usage{GPU: w.gpu, PeakLive: w.peak.bytes, PeakAsk: w.peak.requested, Needed: w.needed, Before: w.before,
			Live: w.live, Failures: w.failures, Unfreed: w.unfreed, Streams: w.streams(), Holdings: w.atPeak()}
		for _, o := range w.ops {
			switch {
			case o.bytes > 0 && !o.old:
				u.Allocs++
			case o.bytes > 0:
				u.BytesBefore += o.size
			}
		}
		usages = append(usages, u)
	}
	return usages
}

// recordedStart is what PyTorch's allocator had before the first event of a recording, in a pool that starts with it.
type recordedStart struct {
	blocks    []*caching.Block // of the first ops
	next      int              // the first of them that no op has
	fits      bool             // under the limit
	low, high uint64           // the limits under which the pool would have started in the same way
}

// restore gives the model the recorded segments. If they are more than the limit, what is cached is released first, as
// PyTorch would have done earlier.
func (p *pytorchPool) restore(w *workload) *recordedStart {
	s := &recordedStart{fits: true, high: math.MaxUint64}
	blocks := map[uint64]*caching.Block{}
	for _, segment := range w.start {
		for _, b := range p.model.Restore(segment) {
			blocks[b.Addr] = b
		}
		p.device.adopt(segment)
	}
	for _, addr := range w.addrs {
		s.blocks = append(s.blocks, blocks[addr])
	}
	memory := p.device.free
	limit := memory
	if p.limit > 0 {
		limit = min(limit, p.limit)
	}
	if s.low = p.model.Reserved(); s.low > limit {
		s.high = s.low - 1
		p.model.ReleaseCached()
		s.low = p.model.Reserved()
	}
	if s.low > limit {
		s.fits, s.high, s.low = false, s.low-1, 0
	}
	p.device.free = memory - min(memory, p.device.held)
	p.peak = p.model.Reserved()
	return s
}

// adopt takes the block of an op that allocates what was live before.
func (p *pytorchPool) adopt(o op) error {
	block := p.start.blocks[p.start.next]
	p.start.next++
	p.blocks[o.block] = block
	p.live += block.Bytes
	if !p.start.fits {
		return caching.ErrOutOfMemory
	}
	return nil
}

// adopt counts a segment that the device provided earlier, and keeps later ones away from its addresses.
func (d cachingDevice) adopt(s caching.Segment) {
	for _, piece := range s.Pieces {
		if !piece.Unmapped {
			d.held += piece.Bytes
		}
	}
	if !s.Expandable {
		d.sizes[s.Addr] = s.Bytes
	}
	d.next = max(d.next, ((s.Addr+s.Bytes)/d.granule+1)*d.granule)
}

const mib = 1 << 20

// search finds the least limit in MiB that a job fits under. Its caller tries the limit that next returns and reports
// the outcome to record.
type search struct {
	fails   uint64 // MiB: known to be too little
	fits    uint64 // MiB: known to be enough; 0: no such limit is known
	step    uint64
	first   uint64  // MiB: what to try first; 0: nothing
	early   float64 // how much of the job the last replay that failed did; 0: none has failed
	guess   uint64  // MiB: what the last replay says might be the least limit; 0: nothing
	guesses float64 // what following guesses has cost, in replays of the whole job
}

// mostGuesses bounds what the search spends on guesses: each makes the interval smaller, but maybe only by a little.
const mostGuesses = 5

// newSearch begins right above the limits that cannot suffice: those below the peak of live bytes.
func newSearch(peakLiveBytes uint64) *search {
	return &search{fails: (max(peakLiveBytes, 1) - 1) / mib, step: 1}
}

// newChallenge looks for a limit below one that is known to be enough otherwise. If there is none, it ends with that
// one.
func newChallenge(peakLiveBytes, bestBytes uint64) *search {
	s := newSearch(peakLiveBytes)
	s.fits = bestBytes / mib
	s.first = s.fits - 1
	return s
}

// next returns the limit to try next or, if done, the least limit.
func (s *search) next() (limitMiB uint64, done bool) {
	switch {
	case s.first > s.fails && s.first < s.fits:
		return s.first, false
	case s.fits == s.fails+1:
		return s.fits, true
	case s.fits == 0 && s.guess > s.fails:
		return max(s.guess, s.fails+s.step), false
	case s.guess > s.fails && s.guess < s.fits && s.guesses < mostGuesses:
		return s.guess, false
	case s.fits == 0 || s.early == 0:
		return s.fails + s.step, false
	default:
		return s.fails + max(1, uint64(float64(s.fits-s.fails)*share(s.early))), false
	}
}

// share returns where in an interval to try next. A replay that fails costs only a part of one that fits, because it
// ends early: then the search tries low limits. With both equally expensive, this is the middle; else, in the worst
// case, the total cost is least if an interval shrinks to p at cost 1, or to 1-p at cost early, with p =
// (1-p)^(1/early).
func share(early float64) float64 {
	low, high := 0.0, 0.5
	for range 20 {
		if p := (low + high) / 2; p < math.Pow(1-p, 1/early) {
			low = p
		} else {
			high = p
		}
	}
	return high
}

// record takes the outcome of a replay that did a part of the job: all limits that the outcome holds for are known now.
func (s *search) record(o outcome, done float64) {
	s.guess = (o.guess + mib - 1) / mib
	if o.failure == nil {
		s.fits = max((o.low+mib-1)/mib, s.fails+1)
		if s.guess > 0 {
			s.guess = min(max(s.guess, s.fails+1), s.fits-1)
		}
		s.guesses += done
		return
	}
	s.fails = o.high / mib
	if s.fits > 0 {
		s.fails = min(s.fails, s.fits-1)
	}
	s.step *= 2 // also after a guess: each may be only a little larger than the last one
	s.early = max(done, 1e-3)
	s.guesses += done
}
