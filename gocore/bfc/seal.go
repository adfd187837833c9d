package bfc

import "errors"

// ErrSealed is the answer to an Allocate while the allocator is sealed.
var ErrSealed = errors.New("the allocator is about to be closed")

// Seal stops new allocations, with ErrSealed, and tells how many blocks are live. Frees go on. With it the owner of several
// allocators can find out that all are idle, and close them, without a block appearing in between; else it calls Unseal.
func (a *Allocator) Seal() (liveBlocks uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sealed = true
	a.serveLocked()
	return uint64(a.index.Count())
}

// Unseal lets allocations in again.
func (a *Allocator) Unseal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sealed = false
	a.serveLocked()
}

// errShut is why nothing can be allocated: closed or sealed.
func (a *Allocator) errShut() error {
	if a.closed {
		return a.errClosed()
	}
	return ErrSealed
}
