// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"errors"
	"sync/atomic"
)

// Failure makes the n-th allocation fail as if there were no memory, so that programs can test what they do then.
// Allocators that share a Failure count together. A request for 0 bytes does not count.
type Failure struct {
	n       uint64
	counted atomic.Uint64
}

// NewFailure returns a Failure of the n-th allocation from now on.
func NewFailure(n uint64) *Failure { return &Failure{n: n} }

// Counted returns the number of allocations so far. It stays at n when the n-th one has failed.
func (f *Failure) Counted() uint64 { return min(f.counted.Load(), f.n) }

// over reports whether the allocation that was to fail has failed.
func (f *Failure) over() bool { return f.counted.Load() >= f.n }

// Due counts an allocation and reports whether it must fail.
func (f *Failure) Due() bool { return !f.over() && f.counted.Add(1) == f.n }

// errInjected is the refusal of an allocation that a Failure made fail.
var errInjected = errors.New("injected")

// IsInjected reports whether an allocation failed because of a Failure.
func IsInjected(err error) bool { return errors.Is(err, errInjected) }

// Inject counts allocations with f from now on, and fails the one that is due. It replaces an earlier Failure; nil ends
// it. While an allocator counts, no allocation takes the fast path; otherwise this costs nothing.
func (a *Allocator) Inject(f *Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = f
	a.serveLocked()
}

// dueLocked counts an allocation and reports whether it must fail.
func (a *Allocator) dueLocked() bool {
	if a.failure == nil {
		return false
	}
	due := a.failure.Due()
	if a.failure.over() { // also if another allocator's allocation was the one
		a.failure = nil
		a.serveLocked()
	}
	return due
}
