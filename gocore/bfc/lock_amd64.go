//go:build !race

package bfc

import (
	"runtime"
	"sync/atomic"
	"time"
)

// lock is a mutex for an allocator: held for some ten nanoseconds, by one thread most of the time.
//
// Each of sync.Mutex's two steps is a locked instruction, and the pair costs as much as all the rest of a small allocation. Here giving back
// is a plain store, which on this processor comes after all that was done under the lock. The price is that nobody is woken: who finds the
// lock held looks again, soon at first and then once in a while. So it is not fair, and a thread that waits while another
// holds the lock for long, as a Trim does, comes up to longestNap later.
//
// The race detector can't see such a store: under it, and on other processors, lock is sync.Mutex (lock_other.go).
type lock struct {
	state atomic.Uint32 // 1: held
}

const (
	spins       = 32 // looks before others get the processor
	yields      = 8  // looks before sleeping
	shortestNap = 2 * time.Microsecond
	longestNap  = 500 * time.Microsecond
)

// Lock takes the lock.
func (l *lock) Lock() {
	if !l.state.CompareAndSwap(0, 1) {
		l.wait()
	}
}

// Unlock gives it back. It must be held.
func (l *lock) Unlock() { storeZero(&l.state) }

func (l *lock) wait() {
	for i := range spins + yields {
		if i < spins {
			pause()
		} else {
			runtime.Gosched()
		}
		if l.try() {
			return
		}
	}
	for nap := shortestNap; !l.try(); nap = min(2*nap, longestNap) {
		timer := time.NewTimer(nap)
		<-timer.C
	}
}

// try looks before it writes: writing takes the word away from who holds the lock.
func (l *lock) try() bool { return l.state.Load() == 0 && l.state.CompareAndSwap(0, 1) }

// storeZero is a store that no other one, and no load, comes after that was before it.
//
//go:noescape
func storeZero(state *atomic.Uint32)

// pause gives the processor's other half and the holder of the lock some time, tens of nanoseconds.
func pause()
