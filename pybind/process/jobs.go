package process

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"gpuconf/gocore/status"
	"gpuconf/gocore/trace"
)

// Job is work that takes long: reading a file, making events of a recording, a plan. It runs on a goroutine of its own. Its caller waits in
// short steps, and Python looks for signals between two. Close ends it at any time, and does not wait: the goroutine sees within some thousand
// steps of its work that nobody wants the result.
type Job struct {
	work    func(context.Context, *Input) (Outcome, error)
	release func() // called once, when the work has ended or will never begin
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed when the work has ended

	mu    sync.Mutex
	input Input // guarded by mu until the work begins; the work's from then on
	begun bool  // guarded by mu

	outcome Outcome // written before done is closed
	err     error   // written before done is closed
}

// Input is what Python hands to a job before it begins.
type Input struct {
	Text []byte
}

// Outcome is what a job has made.
type Outcome struct {
	Head   any // structures for Python, as JSON
	Events []trace.Event
	Large  bool // so much memory was used that it goes back to the system at once when the job is closed
}

// OpenJob keeps work that is to be done, and gives its number. release frees what the work needs.
func OpenJob(work func(context.Context, *Input) (Outcome, error), release func()) (id int64) {
	ctx, cancel := context.WithCancel(context.Background())
	return jobs.put(&Job{work: work, release: release, ctx: ctx, cancel: cancel, done: make(chan struct{})})
}

var jobs table[*Job]

// FindJob finds a job by its number.
func FindJob(id int64) (*Job, error) { return jobs.get(id, "job") }

// CloseJob forgets a job, and ends its work.
func CloseJob(id int64) error {
	j, err := jobs.remove(id, "job")
	if err != nil {
		return err
	}
	j.cancel()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.begun {
		j.begun = true // it never will
		j.release()
	}
	if outcome, err := j.Outcome(); err == nil && outcome.Large {
		go debug.FreeOSMemory()
	}
	return nil
}

// Feed adds to the input of a job that has not begun.
func (j *Job) Feed(text string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.begun {
		return status.Errorf(status.FailedPrecondition, "the job has begun: its input is complete")
	}
	j.input.Text = append(j.input.Text, text...)
	return nil
}

// Wait begins the work, unless that was done, and waits for its end, but not longer than timeout. It fails as the work does.
func (j *Job) Wait(timeout time.Duration) (done bool, err error) {
	j.begin()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-j.done:
		return true, j.err
	case <-timer.C:
		return false, nil
	}
}

func (j *Job) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.begun {
		j.begun = true
		go j.run()
	}
}

func (j *Job) run() {
	defer func() {
		if r := recover(); r != nil {
			var marked error
			Caught(r, &marked)
			j.err = status.Errorf(status.Internal, "%s", Unmark(marked))
		}
		j.input, j.work = Input{}, nil
		j.release()
		close(j.done)
		if j.ctx.Err() != nil {
			debug.FreeOSMemory()
		}
	}()
	j.outcome, j.err = j.work(j.ctx, &j.input)
	if errors.Is(j.err, context.Canceled) {
		j.err = status.Errorf(status.FailedPrecondition, "the job was closed")
	}
}

// Outcome is what the work has made. It must have ended well.
func (j *Job) Outcome() (Outcome, error) {
	select {
	case <-j.done:
		return j.outcome, j.err
	default:
		return Outcome{}, status.Errorf(status.FailedPrecondition, "the job has not ended yet")
	}
}
