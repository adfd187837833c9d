//go:build cgo

package process_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/pybind/process"
	"gpuconf/tests_go/must"
)

type work = func(context.Context, *process.Input) (process.Outcome, error)

// long is more than any work of these tests takes.
const long = 20 * time.Second

// openJob opens a job, which is closed with the test, and returns how often its work was released.
func openJob(t *testing.T, do work) (id int64, job *process.Job, released *atomic.Int64) {
	released = new(atomic.Int64)
	id, err := process.OpenJob(do, func() { released.Add(1) })
	require.NoError(t, err)
	job = must.OK(process.FindJob(id))(t)
	t.Cleanup(func() { _ = process.CloseJob(id) })
	return id, job, released
}

func TestAJobReturnsItsOutcome(t *testing.T) {
	_, job, released := openJob(t, func(_ context.Context, input *process.Input) (process.Outcome, error) {
		input.Progress(func() float64 { return 0.5 })
		return process.Outcome{Head: string(input.Text)}, nil
	})
	require.NoError(t, job.Feed("one, "))
	require.NoError(t, job.Feed("two"))
	require.Zero(t, job.Progress())
	must.Fail(t, status.FailedPrecondition, must.Err(job.Outcome()), "the job has not ended yet")
	for range 2 { // a second wait finds the same
		require.True(t, must.OK(job.Wait(long))(t))
	}
	require.Equal(t, "one, two", must.OK(job.Outcome())(t).Head)
	require.EqualValues(t, 1, job.Progress(), "whatever the work reports")
	require.EqualValues(t, 1, released.Load())
	must.Fail(t, status.FailedPrecondition, job.Feed("three"))
}

// The caller waits in short steps; meanwhile the input is the work's, and the work says how far it is.
func TestAJobWorksBetweenWaits(t *testing.T) {
	proceed, at := make(chan bool), make(chan bool)
	_, job, _ := openJob(t, func(_ context.Context, input *process.Input) (process.Outcome, error) {
		input.Progress(func() float64 { return 0.25 })
		at <- true
		<-proceed
		return process.Outcome{}, nil
	})
	for range 2 {
		require.False(t, must.OK(job.Wait(0))(t))
	}
	<-at
	require.InDelta(t, 0.25, job.Progress(), 0)
	must.Fail(t, status.FailedPrecondition, job.Feed("more"))
	must.Fail(t, status.FailedPrecondition, must.Err(job.Outcome()))
	proceed <- true
	require.True(t, must.OK(job.Wait(long))(t))
}

func TestAJobThatFails(t *testing.T) {
	wrong := status.Errorf(status.NotFound, "no such recording")
	_, job, released := openJob(t, func(context.Context, *process.Input) (process.Outcome, error) {
		return process.Outcome{}, wrong
	})
	for range 2 {
		done, err := job.Wait(long)
		require.True(t, done)
		require.Equal(t, wrong, err)
	}
	require.Equal(t, wrong, must.Err(job.Outcome()))
	require.EqualValues(t, 1, released.Load())
}

// Closing a job cancels its work and waits for nothing. The work releases what it has when it notices.
func TestAClosedJobEndsItsWork(t *testing.T) {
	canceled, proceed := make(chan bool), make(chan bool)
	id, job, released := openJob(t, func(ctx context.Context, _ *process.Input) (process.Outcome, error) {
		<-ctx.Done()
		canceled <- true
		<-proceed
		return process.Outcome{}, ctx.Err()
	})
	done := must.OK(job.Wait(0))(t)
	require.False(t, done)
	require.NoError(t, process.CloseJob(id))
	<-canceled
	require.Zero(t, released.Load(), "the work still uses it")
	proceed <- true
	done, err := job.Wait(long) // as a thread does that has found the job before
	require.True(t, done)
	must.Fail(t, status.FailedPrecondition, err, "the job was closed")
	require.EqualValues(t, 1, released.Load())
}

func TestAJobThatIsClosedBeforeItBegins(t *testing.T) {
	id, job, released := openJob(t, func(context.Context, *process.Input) (process.Outcome, error) {
		t.Error("the work of a closed job has begun")
		return process.Outcome{}, nil
	})
	require.NoError(t, process.CloseJob(id))
	require.EqualValues(t, 1, released.Load())
	must.Fail(t, status.FailedPrecondition, job.Feed("more"))
	require.False(t, must.OK(job.Wait(0))(t))
	require.EqualValues(t, 1, released.Load())
}

// Numbers are never reused: a number of a closed job names no later one.
func TestNumbersOfJobs(t *testing.T) {
	nothing := func(context.Context, *process.Input) (process.Outcome, error) { return process.Outcome{}, nil }
	first, _, _ := openJob(t, nothing)
	require.NoError(t, process.CloseJob(first))
	second, _, _ := openJob(t, nothing)
	require.NotEqual(t, first, second)
	for _, id := range []int64{first, 0, -1, second + 1} {
		_, err := process.FindJob(id)
		for _, err := range []error{err, process.CloseJob(id)} {
			must.Fail(t, status.InvalidArgument, err)
			require.EqualError(t, err, fmt.Sprintf("there is no job %d: it was released or never existed", id))
		}
	}
}

// A panic of a job's or a parallel call's goroutine ends neither the process nor a wait, and stops the core.
func panics() string {
	var wrong strings.Builder
	complain := func(format string, args ...any) { fmt.Fprintf(&wrong, format+"\n", args...) }
	expect := func(what string, err error) {
		if status.CodeOf(err) != status.Internal || !strings.Contains(err.Error(), "chunk 7 is broken") ||
			!strings.Contains(err.Error(), "jobs_test.go") {
			complain("%s: %v", what, err)
		}
	}
	broken := func() { panic("chunk 7 is broken") }

	released := 0
	id, err := process.OpenJob(func(context.Context, *process.Input) (process.Outcome, error) {
		broken()
		return process.Outcome{}, nil
	}, func() { released++ })
	if err != nil {
		complain("open: %v", err)
	}
	job, err := process.FindJob(id)
	if err != nil {
		complain("find: %v", err)
		return wrong.String()
	}
	if err := process.Alive(); err != nil {
		complain("before: %v", err)
	}
	done, err := job.Wait(long)
	expect("wait", err)
	expect("outcome", must.Err(job.Outcome()))
	if !done || released != 1 {
		complain("done: %v, released %d times", done, released)
	}
	expect("parallel", process.Parallel(context.Background(), 3, func(context.Context, int) error {
		broken()
		return nil
	}))
	if err := process.Alive(); status.CodeOf(err) != status.Internal ||
		!strings.Contains(err.Error(), "chunk 7 is broken. Restart the process") {
		complain("afterwards: %v", err)
	}
	var state process.State
	for what, call := range map[string]func() error{
		"Manager":    func() error { _, err := state.Manager(); return err },
		"Publish":    func() error { return state.Publish(nil) },
		"OpenLedger": func() error { _, err := process.OpenLedger("", false); return err },
		"CloseJob":   func() error { return process.CloseJob(id) },
	} {
		if err := call(); (err == nil) != (what == "CloseJob") {
			complain("%s after a panic: %v", what, err)
		}
	}
	return wrong.String()
}

func init()                                     { children["panics"] = panics }
func TestAPanicOfAnotherGoroutine(t *testing.T) { inChild(t, "panics") }

func TestParallelCallsForEachNumberOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100} {
		calls := make([]atomic.Int64, n)
		err := process.Parallel(context.Background(), n, func(_ context.Context, number int) error {
			calls[number].Add(1)
			return nil
		})
		require.NoError(t, err)
		for number := range calls {
			require.EqualValues(t, 1, calls[number].Load())
		}
	}
}

func TestParallelStopsAtAnError(t *testing.T) {
	wrong := errors.New("wrong")
	var calls atomic.Int64
	err := process.Parallel(context.Background(), 1_000_000, func(ctx context.Context, number int) error {
		calls.Add(1)
		if number == 10 {
			return wrong
		}
		return ctx.Err()
	})
	require.Equal(t, wrong, err)
	require.Less(t, calls.Load(), int64(1_000_000))

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, process.Parallel(ctx, 5, func(context.Context, int) error { return nil }), context.Canceled)
}
