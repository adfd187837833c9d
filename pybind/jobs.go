// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"context"
	"time"

	"gpuconf/gocore/rewind"
	"gpuconf/gocore/status"
	"gpuconf/gocore/trace"
	"gpuconf/pybind/process"
)

// OpenLoad creates a job that reads a trace from an open file: CSV of RMM or gpuconf, or a PyTorch snapshot. The job's result is
// {"events": count, "names": as in namesOf, "settings": trace.HistorySettings of a snapshot, "out_of_memory": [rewind.OutOfMemory] of a snapshot that ends
// with failed allocations}; its pages are the events.
func OpenLoad(descriptor int64) (job int64, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return 0, err
	}
	return openFileJob(descriptor, func(ctx context.Context, file *process.File) (process.Outcome, error) {
		read, failed, err := load(ctx, file)
		head := map[string]any{"events": len(read.Events), "names": namesOf(read.Names), "settings": read.Settings, "out_of_memory": failed}
		return process.Outcome{Head: head, Events: read.Events, Large: isLarge(read.Events)}, err
	})
}

// openFileJob creates a job that works on an open file.
func openFileJob(descriptor int64, work func(context.Context, *process.File) (process.Outcome, error)) (job int64, err error) {
	file, err := process.ShareFile(descriptor)
	if err != nil {
		return 0, err
	}
	return process.OpenJob(func(ctx context.Context, _ *process.Input) (process.Outcome, error) { return work(ctx, file) }, file.Close), nil
}

// load reads a file. The first byte determines whether it is a pickle.
func load(ctx context.Context, file *process.File) (read trace.Recording, failed []*rewind.OutOfMemory, err error) {
	data, err := file.ReadAll(ctx, func(first []byte) error {
		if !isPickle(first) && !process.IsText(first) {
			return errNoTrace()
		}
		return nil
	})
	switch {
	case err != nil:
		return read, nil, err
	case isPickle(data):
		if read, err = trace.ReadSnapshot(ctx, data); err == nil {
			failed, err = outOfMemories(ctx, data, &read)
		}
		return read, failed, err
	case !process.IsText(data):
		return read, nil, errNoTrace()
	}
	read, err = trace.ParseCSV(ctx, string(data))
	return read, nil, err
}

// outOfMemories returns the state at the failed allocations with which a snapshot ends.
func outOfMemories(ctx context.Context, data []byte, read *trace.Recording) ([]*rewind.OutOfMemory, error) {
	if len(trace.FinalFailures(read.Events)) == 0 {
		return nil, nil
	}
	history, err := trace.ReadHistory(ctx, data)
	if err != nil {
		return nil, ctx.Err() // what gpuconf writes is a trace, but not a whole record
	}
	return rewind.OutOfMemories(ctx, history, read)
}

func isPickle(data []byte) bool { return len(data) > 0 && data[0] == 0x80 }

func errNoTrace() error {
	return status.Errorf(status.InvalidArgument, "it is neither CSV nor a pickle")
}

// isLarge reports whether events take more than about 50 MiB; processing them takes at least as much again.
func isLarge(events []trace.Event) bool { return len(events) > 1<<20 }

// WaitJob starts a job if necessary and waits until it is done, for at most this many milliseconds, and at most 100. If the job fails, it
// returns the job's error.
func WaitJob(id int64, milliseconds int64) (done bool, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return false, err
	}
	job, err := process.FindJob(id)
	if err != nil {
		return false, err
	}
	return job.Wait(time.Duration(min(max(milliseconds, 0), maxWaitMS)) * time.Millisecond)
}

// JobProgress returns how many thousandths of a job's work are done. Only plans report it.
func JobProgress(id int64) (thousandths int64, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return 0, err
	}
	job, err := process.FindJob(id)
	if err != nil {
		return 0, err
	}
	return int64(1000 * job.Progress()), nil
}

// JobResult returns the result of a finished job as JSON.
func JobResult(id int64) (result string, err error) {
	defer process.Gate(&err)
	outcome, err := outcomeOf(id)
	if err != nil {
		return "", err
	}
	return encode(outcome.Head)
}

// pageEvents is the number of events in a page. Formatting a page takes a millisecond or two.
const pageEvents = 1 << 13

// JobPage returns a page of the events of a finished job, counted from 0: lines of CSV, without the header. After the last page it
// returns "".
func JobPage(id int64, number int64) (lines string, err error) {
	defer process.Gate(&err)
	outcome, err := outcomeOf(id)
	if err != nil {
		return "", err
	}
	pages := int64((len(outcome.Events) + pageEvents - 1) / pageEvents)
	if number < 0 || number >= pages {
		return "", nil
	}
	from := int(number) * pageEvents
	return trace.FormatLines(outcome.Events[from:min(from+pageEvents, len(outcome.Events))]), nil
}

func outcomeOf(id int64) (process.Outcome, error) {
	if err := process.Alive(); err != nil {
		return process.Outcome{}, err
	}
	job, err := process.FindJob(id)
	if err != nil {
		return process.Outcome{}, err
	}
	return job.Outcome()
}

// CloseJob removes a job, and cancels its work if it is still running.
func CloseJob(id int64) (done bool, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return false, err
	}
	return true, process.CloseJob(id)
}
