// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"bytes"
	"context"
	"time"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/rewind"
	"gpuconf/pybind/process"
)

// OpenLoad creates a job that reads a trace from an open file: CSV of RMM or gpuconf, or a PyTorch snapshot. The job's
// result is {"events": count, "names": as in namesOf, "settings": trace.HistorySettings of a snapshot, "out_of_memory":
// [rewind.OutOfMemory] of a snapshot that ends with failed allocations, "recorded": [rewind.Recorded] of a snapshot of
// PyTorch, "incomplete": why a snapshot has nothing of that; "", "hidden": how many of the events stand for segments
// that there were before}; its pages are the events.
func (calls) OpenLoad(descriptor int64) (job int64, err error) {
	return openFileJob(descriptor, func(ctx context.Context, file *process.File) (process.Outcome, error) {
		l, err := load(ctx, file)
		events := l.Events
		head := map[string]any{"events": len(events), "names": namesOf(l.Names), "settings": l.Settings,
			"out_of_memory": l.failed, "recorded": l.recorded,
			"incomplete": l.incomplete, "hidden": trace.CountHidden(events)}
		return process.Outcome{Head: head, Events: events, Large: isLarge(events)}, err
	})
}

// openFileJob creates a job that works on an open file.
func openFileJob(descriptor int64, work func(context.Context, *process.File) (process.Outcome, error)) (
	job int64, err error) {
	file, err := process.ShareFile(descriptor)
	if err != nil {
		return 0, err
	}
	return process.OpenJob(func(ctx context.Context, _ *process.Input) (process.Outcome, error) {
		return work(ctx, file)
	}, file.Close)
}

// loaded is what a file contains.
type loaded struct {
	trace.Recording
	failed     []*rewind.OutOfMemory
	recorded   []*rewind.Recorded
	incomplete string
}

// load reads a file. The first byte determines whether it is a pickle.
func load(ctx context.Context, file *process.File) (l loaded, err error) {
	data, err := file.ReadAll(ctx, func(first []byte) error {
		if !isPickle(first) && !process.IsText(first) {
			return errNoTrace(first)
		}
		return nil
	})
	switch {
	case err != nil:
		return l, err
	case isPickle(data):
		return loadSnapshot(ctx, data)
	case !process.IsText(data):
		return l, errNoTrace(data)
	}
	l.Recording, err = trace.ParseCSV(ctx, string(data))
	return l, err
}

func loadSnapshot(ctx context.Context, data []byte) (l loaded, err error) {
	recording, history, incomplete, err := trace.ReadBoth(ctx, data)
	l.Recording = recording
	switch {
	case err != nil || history.OfGpuconf: // what gpuconf writes is a trace, but not a whole record
		return l, err
	case incomplete != nil:
		l.incomplete = incomplete.Error()
		return l, nil
	}
	if l.recorded, err = rewind.Complete(ctx, history, &l.Recording); err != nil {
		return l, err
	}
	if len(trace.FinalFailures(l.Events)) > 0 {
		l.failed, err = rewind.OutOfMemories(ctx, history, &l.Recording)
	}
	return l, err
}

func isPickle(data []byte) bool { return len(data) > 0 && data[0] == 0x80 }

func errNoTrace(data []byte) error {
	if bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		return status.Errorf(status.InvalidArgument, "it is a ZIP archive, as a checkpoint of torch.save() is, and no "+
			"record of allocations: save one with torch.cuda.memory._dump_snapshot()")
	}
	return status.Errorf(status.InvalidArgument, "it is neither CSV nor a pickle")
}

// isLarge reports whether events take more than about 50 MiB; processing them takes at least as much again.
func isLarge(events []trace.Event) bool { return len(events) > 1<<20 }

// FeedJob appends text to the trace of a job that has not started: CSV with a header.
func (calls) FeedJob(j *process.Job, text string) error { return j.Feed(text) }

// WaitJob starts a job if necessary and waits until it is done, for at most this many milliseconds, and at most 100. If
// the job fails, it returns the job's error.
func (calls) WaitJob(j *process.Job, milliseconds int64) (done bool, err error) {
	return j.Wait(time.Duration(min(max(milliseconds, 0), maxWaitMS)) * time.Millisecond)
}

// JobProgress returns how many thousandths of a job's work are done. Only plans report it.
func (calls) JobProgress(j *process.Job) (thousandths int64, err error) {
	return int64(1000 * j.Progress()), nil
}

// JobResult returns the result of a finished job as JSON.
func (calls) JobResult(j *process.Job) (result string, err error) {
	outcome, err := j.Outcome()
	if err != nil {
		return "", err
	}
	return encode(outcome.Head)
}

// pageEvents is the number of events in a page. Formatting a page takes a millisecond or two.
const pageEvents = 1 << 13

// JobPage returns a page of the events of a finished job, counted from 0: lines of CSV, without the header. After the
// last page it returns "".
func (calls) JobPage(j *process.Job, number int64) (lines string, err error) {
	outcome, err := j.Outcome()
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

// CloseJob removes a job, and cancels its work if it is still running.
func (calls) CloseJob(id int64) error { return process.CloseJob(id) }
