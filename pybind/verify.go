// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"context"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/rewind"
	"gpuconf/pybind/process"
)

// OpenVerify creates a job that replays a PyTorch snapshot from an open file on the model of PyTorch's allocator. The
// job's result is {"verdict": rewind.Verdict, "difference": the first one, or ""}.
func OpenVerify(descriptor int64) (job int64, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return 0, err
	}
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
