package pybind

import (
	"context"
	"time"

	"gpuconf/gocore/status"
	"gpuconf/gocore/trace"
	"gpuconf/pybind/process"
)

// OpenLoad prepares to read a trace from a file that the caller has open: RMM's CSV and ours, or PyTorch's snapshots. The job's result is
// {"events": how many}; its pages are the events.
func OpenLoad(descriptor int64) (job int64, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return 0, err
	}
	file, err := process.ShareFile(descriptor)
	if err != nil {
		return 0, err
	}
	return process.OpenJob(func(ctx context.Context, _ *process.Input) (process.Outcome, error) {
		events, err := load(ctx, file)
		return process.Outcome{Head: map[string]any{"events": len(events)}, Events: events, Large: isLarge(events)}, err
	}, file.Close), nil
}

// load reads a file. Its first byte says whether it is a pickle.
func load(ctx context.Context, file *process.File) ([]trace.Event, error) {
	data, err := file.ReadAll(ctx, func(first []byte) error {
		if !isPickle(first) && !process.IsText(first) {
			return errNoTrace()
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case isPickle(data):
		return trace.ReadSnapshot(ctx, data)
	case !process.IsText(data):
		return nil, errNoTrace()
	}
	return trace.ParseCSV(ctx, string(data))
}

func isPickle(data []byte) bool { return len(data) > 0 && data[0] == 0x80 }

func errNoTrace() error {
	return status.Errorf(status.InvalidArgument, "it is neither CSV nor a pickle")
}

// isLarge is for events that take some 50 MiB, and as much again or more on the way.
func isLarge(events []trace.Event) bool { return len(events) > 1<<20 }

// WaitJob works on a job for so many milliseconds, at most 100, or until it is done. It fails as the job does.
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

// JobResult gives what a job that is done has made, as JSON.
func JobResult(id int64) (result string, err error) {
	defer process.Gate(&err)
	outcome, err := outcomeOf(id)
	if err != nil {
		return "", err
	}
	return encode(outcome.Head)
}

// pageEvents is how many events a page has. It takes a millisecond or two to write one.
const pageEvents = 1 << 13

// JobPage gives a page of the events of a job that is done, the first one being 0: lines of CSV, without the header. Behind the last page is "".
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

// CloseJob forgets a job. Its work ends if it was still going on.
func CloseJob(id int64) (done bool, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return false, err
	}
	return true, process.CloseJob(id)
}
