package plan

import (
	"context"

	"gpuconf/gocore/status"
	"gpuconf/gocore/trace"
)

// Request configures a Job.
type Request struct {
	LimitBytes uint64 // 0: find only the least limits
	Card       Card
	Policies   []Policy
}

// Job answers a Request, one replay at a time.
type Job struct {
	request   Request
	workloads []*workload
	results   []*Result
	search    *search // for the current result; nil: not begun
	at        int     // index of the current result
}

// Result is the outcome for one logical GPU under one policy. Sizes are bytes.
type Result struct {
	GPU        int      `json:"gpu"`
	Policy     Policy   `json:"policy"`
	Fits       *bool    `json:"fits"` // nil: no limit was requested
	LeastLimit uint64   `json:"least_limit"`
	Failure    *Failure `json:"failure"` // under the requested limit
	Measure    *Measure `json:"measure"` // under the requested limit or, if the job does not fit it, under the least one

	workload *workload
}

// Usage summarizes what a trace does on one logical GPU. Sizes are bytes.
type Usage struct {
	GPU      int    `json:"gpu"`
	Allocs   int    `json:"num_allocs"`
	PeakLive uint64 `json:"peak_bytes_in_use"` // blocks rounded up to 256
	Before   int    `json:"live_blocks_before"`
	Live     int    `json:"live_blocks_after"`
	Failures int    `json:"failures"`
	Unfreed  int    `json:"unfreed"`
	Streams  int    `json:"streams"`
}

// New returns a Job that replays events.
func New(ctx context.Context, events []trace.Event, request Request) (*Job, error) {
	if len(request.Policies) == 0 {
		return nil, status.Errorf(status.InvalidArgument, "no policy was requested")
	}
	if len(events) > 1<<31-2 {
		return nil, status.Errorf(status.InvalidArgument, "a trace of %d events is too long", len(events))
	}
	list, err := workloads(ctx, events)
	if err != nil {
		return nil, err
	}
	j := &Job{request: request, workloads: list}
	for _, w := range list {
		for _, policy := range request.Policies {
			j.results = append(j.results, &Result{GPU: w.gpu, Policy: policy, workload: w})
		}
	}
	return j, nil
}

// Step runs one replay, or fails with the context's error. done is true when nothing is left to do.
func (j *Job) Step(ctx context.Context) (done bool, err error) {
	if j.at == len(j.results) {
		return true, nil
	}
	r, w := j.results[j.at], j.results[j.at].workload
	if j.search == nil {
		j.search = newSearch(w.peakLive)
		if j.request.LimitBytes > 0 {
			r.Measure, r.Failure, err = w.replay(ctx, r.Policy, j.request.LimitBytes, j.request.Card, true)
			fits := r.Failure == nil
			r.Fits = &fits
			return false, err
		}
	}
	limit, found := j.search.next()
	card := Card{GranuleBytes: j.request.Card.GranuleBytes} // with unlimited memory
	if !found {
		_, failure, err := w.replay(ctx, r.Policy, limit*mib, card, false)
		j.search.record(limit, failure == nil)
		return false, err
	}
	r.LeastLimit = limit * mib
	if r.Measure == nil {
		r.Measure, _, err = w.replay(ctx, r.Policy, r.LeastLimit, card, true)
	}
	j.search = nil
	j.at++
	return j.at == len(j.results), err
}

// Request returns the request.
func (j *Job) Request() Request { return j.request }

// Results returns the results. They are complete once Step has returned done.
func (j *Job) Results() []*Result { return j.results }

// Usages summarizes the trace, by GPU.
func (j *Job) Usages() (usages []Usage) {
	for _, w := range j.workloads {
		u := Usage{GPU: w.gpu, PeakLive: w.peakLive, Before: w.before, Live: w.live, Failures: w.failures, Unfreed: w.unfreed, Streams: w.streams}
		for _, o := range w.ops {
			if o.bytes > 0 && o.event > 0 {
				u.Allocs++
			}
		}
		usages = append(usages, u)
	}
	return usages
}
