// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"context"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/timeline"
	"gpuconf/pybind/process"
)

// OpenTimeline creates a job that sums up a trace, which FeedJob passes in, with time in at most so many intervals. The
// job's result is {"gpus": [timeline.Timeline]}.
func OpenTimeline(intervals int64) (job int64, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return 0, err
	}
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
	}, func() {}), nil
}
