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
}

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
	list, err := workloads(ctx, events, request.Wanted)
	if err != nil {
		return nil, err
	}
	for _, w := range list {
		w.startFrom(request.Starts[w.gpu])
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
	return nil
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
			Live: w.live, Failures: w.failures, Unfreed: w.unfreed, Streams: len(w.streams), Holdings: w.atPeak()}
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
