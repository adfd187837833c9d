// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"context"
	"slices"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/plan/caching"
	"gpuconf/gocore/plan/plan"
	"gpuconf/gocore/plan/rewind"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// planRequest is Python's request. Sizes are in bytes; 0 means not set.
type planRequest struct {
	Limit    uint64     `json:"limit"`
	GPU      string     `json:"gpu"`      // a model, as models.ParseSpec reads one; "": any
	Policies []string   `json:"policies"` // empty: all that the GPU supports
	Env      config.Env `json:"env"`      // for the default limit of a GPU

	Settings trace.HistorySettings `json:"settings"` // of PyTorch, when the trace was recorded
	// Starts are the segments that PyTorch's allocator had then, by GPU, as rewind.Recorded has them.
	Starts map[int][]caching.Segment `json:"starts"`
	Wanted bool                      `json:"wanted"` // whether a failed allocation that ends the trace is replayed, too
}

// resolve finds the GPU, its default limit unless another one is requested, and the policies.
func (r planRequest) resolve() (wanted plan.Request, notices []config.Notice, err error) {
	wanted.LimitBytes = r.Limit
	wanted.Recorded, wanted.TiesByAge, wanted.Wanted = rewind.SettingsOf(r.Settings), r.Settings.TiesByAge, r.Wanted
	wanted.Starts = r.Starts
	if r.GPU != "" {
		card, err := cardOf(r.GPU)
		if err != nil {
			return wanted, nil, err
		}
		wanted.Card = plan.Card{Name: card.Model.Product, MemoryBytes: card.MemoryBytes,
			GranuleBytes: card.Model.GranularityBytes}
		if r.Limit == 0 {
			memory := config.Memory{AvailableBytes: card.MemoryBytes, TotalBytes: card.MemoryBytes,
				ComputeMajor: card.Model.ComputeMajor}
			if wanted.LimitBytes, notices, err = config.DefaultLimit(memory, r.Env); err != nil {
				return wanted, nil, err
			}
		}
	}
	wanted.Policies, err = r.policies(r.GPU != "" && wanted.Card.GranuleBytes == 0)
	return wanted, notices, err
}

// policies returns the requested policies, or, if none is named, all that the GPU supports.
func (r planRequest) policies(noVirtual bool) (policies []plan.Policy, err error) {
	for _, name := range r.Policies {
		policy, err := plan.ParsePolicy(name)
		if err != nil {
			return nil, err
		}
		if policy.NeedsVirtual() && noVirtual {
			return nil, status.Errorf(status.InvalidArgument, "%s has no virtual memory management, which policy %s "+
				"requires", r.GPU, policy)
		}
		policies = append(policies, policy)
	}
	if len(policies) > 0 {
		return policies, nil
	}
	return slices.DeleteFunc(plan.Policies(), func(p plan.Policy) bool { return p.NeedsVirtual() && noVirtual }), nil
}

func cardOf(text string) (models.Card, error) {
	spec, err := models.ParseSpec(text)
	if err != nil {
		return models.Card{}, err
	}
	if len(spec.Cards) != 1 {
		return models.Card{}, status.Errorf(status.InvalidArgument, "%q names %d GPUs; a plan is for one GPU", text,
			len(spec.Cards))
	}
	return spec.Cards[0], plannable(spec.Cards[0])
}

// plannable refuses the profiles that a plan would not act on.
func plannable(card models.Card) error {
	rest := card.Profile
	rest.Words &^= models.WSL | models.AsUnified
	if names := rest.Names(); len(names) > 0 {
		return status.Errorf(status.Unimplemented, "a plan for %s does not act on the profile %s; leave it out",
			card.Model.Name, names[0])
	}
	return nil
}

// ParseFleet returns a fleet as a list of wire.FleetBatch.
func ParseFleet(text string) (fleet string, err error) {
	defer process.Gate(&err)
	batches, err := models.ParseFleet(text)
	if err != nil {
		return "", err
	}
	list := make([]wire.FleetBatch, len(batches))
	for i, b := range batches {
		if err := plannable(b.Card); err != nil {
			return "", err
		}
		model, memory := b.Card.Model, b.Card.MemoryBytes
		beside := models.ContextBytes(memory, model.ComputeMajor)
		leasable := memory - beside
		if kept := config.SystemReserve(memory, model.ComputeMajor); b.Card.MemoryKind() == gpu.Unified &&
			kept < leasable {
			leasable -= kept // for the host
		}
		list[i] = wire.FleetBatch{Name: b.Name(), Count: b.Count, Memory: memory, Leasable: leasable, Context: beside,
			Product: model.Product, Virtual: model.GranularityBytes > 0,
			Compute: [2]int{model.ComputeMajor, model.ComputeMinor}, Hardware: wire.Hardware(model.Hardware())}
	}
	return wire.Encode(list)
}

// OpenPlan creates a job that finds out whether a trace, which FeedJob passes in, would fit. The job's result is
// {"limit": bytes, "gpu": name, "memory": bytes, "usage": [plan.Usage], "results": [plan.Result], "notices": [[level,
// text], ...]}.
func OpenPlan(request string) (job int64, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return 0, err
	}
	var asked planRequest
	if err := decode(request, &asked); err != nil {
		return 0, err
	}
	wanted, notices, err := asked.resolve()
	if err != nil {
		return 0, err
	}
	said := [][2]string{}
	for _, n := range notices {
		said = append(said, [2]string{n.Level, n.Text})
	}
	return process.OpenJob(func(ctx context.Context, input *process.Input) (process.Outcome, error) {
		return replayed(ctx, input, wanted, said)
	}, func() {}), nil
}

// FeedJob appends text to the trace of a job that has not started: CSV with a header.
func FeedJob(id int64, text string) (done bool, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return false, err
	}
	job, err := process.FindJob(id)
	if err != nil {
		return false, err
	}
	return true, job.Feed(text)
}

func replayed(ctx context.Context, input *process.Input, wanted plan.Request, notices [][2]string) (
	process.Outcome, error) {
	events, err := trace.ParseNumbered(ctx, string(input.Text))
	if err != nil {
		return process.Outcome{}, err
	}
	input.Text = nil
	job, err := plan.New(ctx, events, wanted)
	if err != nil {
		return process.Outcome{}, err
	}
	input.Progress(job.Done)
	if err := process.Parallel(ctx, job.Len(), job.Determine); err != nil {
		return process.Outcome{}, err
	}
	r := job.Request()
	return process.Outcome{Large: isLarge(events), Head: map[string]any{
		"limit": r.LimitBytes, "gpu": r.Card.Name, "memory": r.Card.MemoryBytes, "usage": job.Usages(),
		"results": job.Results(), "notices": notices,
	}}, nil
}
