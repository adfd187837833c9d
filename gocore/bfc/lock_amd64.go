//go:build !race

package bfc

import (
	"runtime"
	"sync/atomic"
	"time"
)

// lock is the allocator's mutex. It is held for about ten nanoseconds at a time, and is uncontended most of the time.
//
// Lock and Unlock of sync.Mutex each take a locked instruction, and the pair costs as much as the rest of a small allocation. Here,
// Unlock is a plain store, which on x86-64 becomes visible after all earlier reads and writes. The price is that Unlock wakes no thread:
// a thread that finds the lock held polls it, frequently at first and then less often. The lock is therefore not fair, and a thread
// that waits while another holds the lock for long, as Trim does, may acquire it up to longestNap late.
//
// The race detector does not see such a store. With it, and on other processors, lock is a sync.Mutex (lock_other.go).
type lock struct {
	state atomic.Uint32 // 1: held
}

const (
	spins       = 32 // attempts before yielding the processor
	yields      = 8  // attempts, each after a yield, before sleeping
	shortestNap = 2 * time.Microsecond
	longestNap  = 500 * time.Microsecond
)

// Lock acquires the lock.
func (l *lock) Lock() {
	if !l.state.CompareAndSwap(0, 1) {
		l.wait()
	}
}

// Unlock releases the lock, which must be held.
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

// try reads before it writes: a write would take the cache line away from the thread that holds the lock.
func (l *lock) try() bool { return l.state.Load() == 0 && l.state.CompareAndSwap(0, 1) }

// storeZero stores 0 with release ordering: no earlier load or store moves behind it.
//
//go:noescape
func storeZero(state *atomic.Uint32)

// pause waits for tens of nanoseconds, and leaves the core to its other hardware thread meanwhile.
func pause()
