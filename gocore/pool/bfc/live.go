// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/chunks"
)

// Find returns the live block that begins at addr, and its requested size.
func (a *Allocator) Find(addr uint64) (block Block, requestedBytes uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.index.Find(addr)
	if !ok {
		return Block{}, 0, false
	}
	i := a.index.At(at)
	c := &a.chunks.Records[i]
	return Block{Addr: addr, Bytes: c.Bytes(), ID: c.ID()}, a.chunks.Requested(i), true
}

// errNotLiveLocked describes an address that is not in the index. It walks the chunks of a region; only invalid calls
// pay for that.
func (a *Allocator) errNotLiveLocked(addr uint64) error {
	if a.closed {
		return a.errClosed()
	}
	c := a.chunkAroundLocked(addr)
	switch {
	case c == nil:
		return status.Errorf(status.InvalidArgument, "allocator %s: nothing was freed: it has no memory at %#x",
			a.name, addr)
	case c.Free() || c.Held():
		return status.Errorf(status.InvalidArgument,
			"allocator %s: nothing was freed: the memory at %#x is free; was it freed before?", a.name, addr)
	default:
		return status.Errorf(status.InvalidArgument,
			"allocator %s: nothing was freed: %#x is inside the block of %d bytes at %#x; free that address", a.name,
			addr, c.Bytes(), c.Addr())
	}
}

// chunkAroundLocked returns the chunk that contains addr, or nil.
func (a *Allocator) chunkAroundLocked(addr uint64) *chunks.Chunk {
	for _, r := range a.regions {
		if addr < r.addr || addr-r.addr >= r.bytes {
			continue
		}
		c := &a.chunks.Records[r.first]
		for addr-c.Addr() >= c.Bytes() {
			c = &a.chunks.Records[c.Next]
		}
		return c
	}
	return nil
}

func (a *Allocator) errOtherID(addr, now, id uint64) error {
	return status.Errorf(status.InvalidArgument,
		"allocator %s: nothing was freed: the block at %#x is allocation %d, and allocation %d is not live there",
		a.name, addr, now, id)
}
