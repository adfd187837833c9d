// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"context"
	"fmt"
	"slices"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/plan/caching"
	"gpuconf/gocore/plan/plan"
	"gpuconf/gocore/plan/rewind"
	"gpuconf/gocore/plan/timeline"
	"gpuconf/gocore/pool/bfc"
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

	Workspaces map[uint64]uint64 `json:"workspaces"` // plan.Request has these
	Use        plan.Use          `json:"use"`
	Cards      []uint64          `json:"cards"`
	PoolsLeft  bool              `json:"pools_left"`
}

// resolve finds the GPU, its default limit unless another one is requested, and the policies.
func (r planRequest) resolve() (wanted plan.Request, notices []config.Notice, err error) {
	wanted.LimitBytes = r.Limit
	wanted.Recorded, wanted.TiesByAge, wanted.Wanted = rewind.SettingsOf(r.Settings), r.Settings.TiesByAge, r.Wanted
	wanted.Starts, wanted.Workspaces, wanted.Use, wanted.Cards = r.Starts, r.Workspaces, r.Use, r.Cards
	wanted.PoolsLeft = r.PoolsLeft
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
		return models.Card{}, status.Errorf(status.InvalidArgument, "%q names %d GPUs; a plan is for one GPU: "+
			"plan the recording once for each", text, len(spec.Cards))
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

// ParseFleet returns the batches of a fleet.
func (calls) ParseFleet(text string) (list []wire.FleetBatch, err error) {
	batches, err := models.ParseFleet(text)
	if err != nil {
		return nil, err
	}
	list = make([]wire.FleetBatch, len(batches))
	for i, b := range batches {
		if err := plannable(b.Card); err != nil {
			return nil, err
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
			Compute: [2]int{model.ComputeMajor, model.ComputeMinor}, Hardware: model.Hardware()}
	}
	return list, nil
}

// OpenPlan creates a job that finds out whether a trace, which FeedJob passes in, would fit. The job's result is
// {"limit": bytes, "gpu": name, "memory": bytes, "usage": [plan.Usage], "results": [plan.Result], "notices": [[level,
// text], ...]}.
func (calls) OpenPlan(request string) (job int64, err error) {
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
	}, func() {})
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

// StartRecording starts recording memory events of all logical GPUs and keeps the newest events of each, up to the
// given number, with stacks if Python has prepared them. It returns the recording's number, which is valid until
// DropRecording.
func (calls) StartRecording(events int64, stacks bool) (id int64, err error) {
	return process.Shared().StartRecording(int(min(events, trace.MostEvents+1)), stacks)
}

// CountRecorded returns "events lost running" of a recording; running is 0 or 1.
func (calls) CountRecorded(id int64) (counts string, err error) {
	all, lost, running, err := process.Shared().CountRecorded(id)
	runs := 0
	if running {
		runs = 1
	}
	return fmt.Sprintf("%d %d %d", all, lost, runs), err
}

// StopRecording stops a recording if it is running. OpenRecorded returns its events.
func (calls) StopRecording(id int64) error { return process.Shared().StopRecording(id) }

// OpenRecorded creates a job that returns the events of a stopped recording. The job's result is {"events": count,
// "lost": events, "pools": {number: regions as in wire.MemoryMap}, "names": as in namesOf}; its pages are the events.
func (calls) OpenRecorded(id int64) (job int64, err error) {
	return process.OpenJob(func(ctx context.Context, _ *process.Input) (process.Outcome, error) {
		recording, pools, err := process.Shared().Recorded(ctx, id)
		pictures := map[int]any{}
		for number, drawn := range pools {
			pictures[number] = wire.List{Message: regionsOf(drawn)}
		}
		head := map[string]any{"events": len(recording.Events), "lost": recording.Lost, "pools": pictures,
			"names": namesOf(recording.Names)}
		return process.Outcome{Head: head, Events: recording.Events, Large: isLarge(recording.Events)}, err
	}, func() {})
}

// DropRecording removes a recording, and stops it if it is running.
func (calls) DropRecording(id int64) error { return process.Shared().DropRecording(id) }

// regionsOf returns the regions of a pool. Free chunks have no library.
func regionsOf(drawn bfc.MemoryMap) []wire.Region {
	regions := make([]wire.Region, len(drawn.Regions))
	for i, r := range drawn.Regions {
		chunks := make([]wire.Chunk, len(r.Chunks))
		for j, c := range r.Chunks {
			chunks[j] = wire.Chunk{Address: c.Addr, Bytes: c.Bytes, Requested: c.Requested, InUse: !c.Free}
			if !c.Free {
				chunks[j].Library, chunks[j].Tag = c.Holder.Library().String(), c.Holder.Tag().String()
			}
		}
		regions[i] = wire.Region{Address: r.Addr, Bytes: r.Bytes, Chunks: chunks}
	}
	return regions
}

// namesOf returns {"holders": [[library, tag], ...], "frames": [[file, line, function], ...], "stacks": [[frame number,
// ...], ...]}.
func namesOf(names trace.Names) map[string]any {
	holders := make([][2]string, len(names.Holders))
	for i, h := range names.Holders {
		holders[i] = [2]string{h.Library, h.Tag}
	}
	frames, numbers := [][3]any{}, map[trace.Frame]int{}
	stacks := make([][]int, len(names.Stacks))
	for i, stack := range names.Stacks {
		stacks[i] = make([]int, len(stack))
		for j, f := range stack {
			number, ok := numbers[f]
			if !ok {
				number = len(frames)
				numbers[f], frames = number, append(frames, [3]any{f.File, f.Line, f.Function})
			}
			stacks[i][j] = number
		}
	}
	return map[string]any{"holders": holders, "frames": frames, "stacks": stacks}
}

// OpenTimeline creates a job that sums up a trace, which FeedJob passes in, with time in at most so many intervals. The
// job's result is {"gpus": [timeline.Timeline]}.
func (calls) OpenTimeline(intervals int64) (job int64, err error) {
	if intervals < 1 {
		return 0, status.Errorf(status.InvalidArgument, "a timeline has at least one interval, but got %d", intervals)
	}
	return process.OpenJob(func(ctx context.Context, input *process.Input) (process.Outcome, error) {
		events, err := trace.ParseNumbered(ctx, string(input.Text))
		if err != nil {
			return process.Outcome{}, err
		}
		input.Text = nil
		gpus, err := timeline.Of(ctx, events, int(intervals))
		return process.Outcome{Large: isLarge(events), Head: map[string]any{"gpus": gpus}}, err
	}, func() {})
}

// OpenVerify creates a job that replays a PyTorch snapshot from an open file on the model of PyTorch's allocator. The
// job's result is {"verdict": rewind.Verdict, "difference": the first one, or ""}.
func (calls) OpenVerify(descriptor int64) (job int64, err error) {
	return openFileJob(descriptor, verified)
}

func verified(ctx context.Context, file *process.File) (process.Outcome, error) {
	data, err := file.ReadAll(ctx, func(first []byte) error {
		if !isPickle(first) {
			return status.Errorf(status.InvalidArgument, "it is not a pickle")
		}
		return nil
	})
	if err != nil {
		return process.Outcome{}, err
	}
	history, err := trace.ReadHistory(ctx, data)
	if err != nil {
		return process.Outcome{}, err
	}
	if history.OfGpuconf {
		return process.Outcome{}, status.Errorf(status.InvalidArgument,
			"it is a recording of gpuconf's allocator; the model is of PyTorch's, which "+
				"torch.cuda.memory._dump_snapshot records")
	}
	verdict, err := rewind.Verify(ctx, history)
	if err != nil {
		return process.Outcome{}, err
	}
	return process.Outcome{Large: len(data) > 1<<25, Head: map[string]any{"verdict": verdict,
		"difference": verdict.Difference}}, nil
}
