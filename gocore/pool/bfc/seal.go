// SPDX-License-Identifier: Apache-2.0

package bfc

import "errors"

// ErrSealed is the error of an allocation while the allocator is sealed.
var ErrSealed = errors.New("the allocator is about to be closed")

// Seal makes new allocations fail with ErrSealed and returns the number of live blocks. Frees still work. It lets the
// owner of several allocators find out that all are idle, and close them, without a new block appearing in between;
// otherwise the owner calls Unseal.
func (a *Allocator) Seal() (liveBlocks uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sealed = true
	a.serveLocked()
	return uint64(a.index.Count())
}

// Unseal allows allocations again.
func (a *Allocator) Unseal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sealed = false
	a.serveLocked()
}

// errShut returns why no allocation is possible: closed or sealed.
func (a *Allocator) errShut() error {
	if a.closed {
		return a.errClosed()
	}
	return ErrSealed
}
