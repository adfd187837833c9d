// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
)

// Job is long-running work: reading a file, converting a recording to events, a plan. It runs on its own goroutine. The
// caller waits in short steps, and Python checks for signals between them. Close cancels it at any time without
// waiting: the goroutine notices within a few thousand steps of its work.
type Job struct {
	work    func(context.Context, *Input) (Outcome, error)
	release func() // called once, when the work has ended or will never start
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed when the work has ended

	mu    sync.Mutex
	input Input // guarded by mu until the work starts; then owned by the work
	begun bool  // guarded by mu

	outcome Outcome // written before done is closed
	err     error   // written before done is closed

	progress atomic.Pointer[func() float64] // returns how much is done, from 0 to 1
}

// Input is what Python passes to a job before it starts.
type Input struct {
	Text     []byte                    // what Feed was given, one after the other
	Progress func(done func() float64) // registers what returns how much of the work is done, from 0 to 1
}

// Outcome is the result of a job.
type Outcome struct {
	Head   any           // structures for Python, as JSON
	Events []trace.Event // of a recording, in their order
	Large  bool          // used much memory, which is returned to the system as soon as the job is closed
}

// OpenJob creates a job and returns its number. release frees the resources of the work.
func OpenJob(work func(context.Context, *Input) (Outcome, error), release func()) (id int64, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	return jobs.put(&Job{work: work, release: release, ctx: ctx, cancel: cancel, done: make(chan struct{})}), nil
}

var jobs table[*Job]

// FindJob finds a job by its number.
func FindJob(id int64) (*Job, error) { return jobs.get(id, "job") }

// CloseJob removes a job and cancels its work.
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

// Feed appends to the input of a job that has not started.
func (j *Job) Feed(text string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.begun {
		return status.Errorf(status.FailedPrecondition, "the job has already started; its input cannot be changed")
	}
	j.input.Text = append(j.input.Text, text...)
	return nil
}

// Wait starts the work if necessary and waits up to timeout for its end. If the work fails, it returns the work's
// error.
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
			j.err = panicked(r)
		}
		j.input, j.work = Input{}, nil
		all := func() float64 { return 1 }
		j.progress.Store(&all)
		j.release()
		close(j.done)
		if j.ctx.Err() != nil {
			debug.FreeOSMemory()
		}
	}()
	j.input.Progress = func(done func() float64) { j.progress.Store(&done) }
	j.outcome, j.err = j.work(j.ctx, &j.input)
	if errors.Is(j.err, context.Canceled) {
		j.err = status.Errorf(status.FailedPrecondition, "the job was closed")
	}
}

// Progress returns how much of the work is done, from 0 to 1, if the work reports it.
func (j *Job) Progress() float64 {
	if done := j.progress.Load(); done != nil {
		return (*done)()
	}
	return 0
}

// Outcome returns the result of the work, which must have ended.
func (j *Job) Outcome() (Outcome, error) {
	select {
	case <-j.done:
		return j.outcome, j.err
	default:
		return Outcome{}, status.Errorf(status.FailedPrecondition, "the job has not ended yet")
	}
}

// File is a file that Python has opened. Go reads it, so that Python neither waits for the disk nor holds the contents.
type File struct{ fd int }

// ShareFile duplicates a file descriptor. This package closes the duplicate; Python may close the original at any time.
func ShareFile(fd int64) (*File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, status.Errorf(status.InvalidArgument, "file descriptor %d: %w", fd, err)
	}
	return &File{own}, nil
}

// Close closes the descriptor.
func (f *File) Close() { _ = unix.Close(f.fd) } // nothing was written, so an error loses nothing

const (
	chunkBytes = 1 << 20
	firstBytes = 4096
	pollMS     = 50
)

// ReadAll reads to the end, or until the context is done. accept gets the first bytes, of a pipe again with each part
// of its first 4 KiB, so that a file of another kind is not read whole.
func (f *File) ReadAll(ctx context.Context, accept func(first []byte) error) ([]byte, error) {
	data := make([]byte, 0, max(f.size()+1, firstBytes))
	for {
		if err := f.ready(ctx); err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = append(data, make([]byte, chunkBytes)...)[:len(data)]
		}
		n, err := unix.Read(f.fd, data[len(data):min(cap(data), len(data)+chunkBytes)])
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return nil, status.Errorf(status.Unavailable, "reading the file: %w", err)
		case n == 0:
			return data, nil
		}
		before := len(data)
		data = data[:before+n]
		if before < firstBytes {
			if err := accept(data); err != nil {
				return nil, err
			}
		}
	}
}

// size returns the size of a regular file, up to a bound. It is a hint and may be wrong.
func (f *File) size() int {
	const most = 1 << 30
	var stat unix.Stat_t
	if unix.Fstat(f.fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return int(min(max(stat.Size, 0), most))
}

// ready waits until there is something to read. A regular file is always ready.
func (f *File) ready(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}, pollMS)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return nil // the read reports the error
		}
	}
}

// IsText reports whether the beginning of a file may be text.
func IsText(first []byte) bool { return bytes.IndexByte(first, 0) < 0 }
