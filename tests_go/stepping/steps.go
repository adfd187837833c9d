// Package stepping lets a test decide when a simulated machine executes each piece of queued work, so that it can try every order.
//
// The machine is the real simulator: a stream with work has a goroutine, which Steps holds before each piece that is ready to run. The
// test runs inside synctest.Test, to know when no stream can make progress. A call that waits for held work blocks the test.
package stepping

import (
	"slices"
	"sync"
	"testing/synctest"

	"gpuconf/gocore/gpu"
)

// Steps blocks the work of a machine that was opened with its Hold as sim.Options.BeforeWork. The zero value is ready.
type Steps struct {
	mu   sync.Mutex
	held []held
	free bool // nothing is blocked
}

// held is a stream whose next piece of work could run now.
type held struct {
	ordinal int
	stream  gpu.Stream
	goOn    chan struct{}
}

// Hold returns when a Step of its stream releases it.
func (s *Steps) Hold(ordinal int, stream gpu.Stream) {
	if goOn := s.hold(ordinal, stream); goOn != nil {
		<-goOn
	}
}

func (s *Steps) hold(ordinal int, stream gpu.Stream) (goOn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free {
		return nil
	}
	goOn = make(chan struct{})
	s.held = append(s.held, held{ordinal, stream, goOn})
	return goOn
}

// Steppable lists the streams of a device whose next piece of work could run now, by number. A destroyed stream is listed while it
// has work.
func (s *Steps) Steppable(ordinal int) (streams []gpu.Stream) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if h.ordinal == ordinal {
			streams = append(streams, h.stream)
		}
	}
	slices.Sort(streams)
	return streams
}

// Step executes the next piece of work of a stream that Steppable lists. It returns false for any other stream.
func (s *Steps) Step(ordinal int, stream gpu.Stream) (ran bool) {
	if ran = s.let(ordinal, stream); ran {
		synctest.Wait()
	}
	return ran
}

func (s *Steps) let(ordinal int, stream gpu.Stream) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.held, func(h held) bool { return h.ordinal == ordinal && h.stream == stream })
	if i < 0 {
		return false
	}
	close(s.held[i].goOn)
	s.held = slices.Delete(s.held, i, i+1)
	return true
}

// Drain executes all work that can run, on all devices.
func (s *Steps) Drain() {
	s.End()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = false
}

// End blocks no more work: a test that fails half way can still close the machine.
func (s *Steps) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = true
	for _, h := range s.held {
		close(h.goOn)
	}
	s.held = nil
}
