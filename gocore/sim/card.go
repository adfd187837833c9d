// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"sync/atomic"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/invariants"
)

// card is one GPU of an open machine. The machine's lock guards everything but description and granularity, which never change, and
// fields whose comment names another guard.
type card struct {
	description gpu.Device
	granularity uint64 // of physical memory; 0 without virtual memory management
	usedBytes   uint64 // in use by other processes; never changes

	retains  int // of the primary context
	memory   arena
	physical physical
	managed  managed

	legacy    *stream // guarded by queues.mu, as is all of a stream; nil without a context
	perThread *stream

	// fault is the error of failed queued work. It remains until the context ends; any goroutine may read it.
	fault atomic.Pointer[error]
}

// reservationBytes is the address space reserved for a card with that much memory.
func reservationBytes(totalBytes uint64) uint64 { return roundUp(2*totalBytes, largeBytes) }

// roomBytes returns the bytes available for memory that must be on the card.
func (c *card) roomBytes() uint64 {
	room := c.description.TotalBytes - c.usedBytes - c.memory.charged - c.physical.charged
	if !c.description.Oversubscribes {
		room -= c.managed.charged
	}
	return room
}

// freeBytes returns the unused bytes. Managed memory that could move to the host counts only as far as other memory leaves room.
func (c *card) freeBytes() uint64 {
	room := c.roomBytes()
	if !c.description.Oversubscribes {
		return room
	}
	return room - min(room, c.managed.charged)
}

// allocate allocates memory, lowest address first.
func (c *card) allocate(bytes uint64) (addr uint64, err error) {
	if bytes == 0 {
		return 0, c.errorf(gpu.ErrorInvalidValue, "an allocation of 0 bytes")
	}
	if err := c.affords(bytes); err != nil {
		return 0, err
	}
	addr, found, err := c.memory.allocate(bytes, roundUp(bytes, unitBytes))
	switch {
	case err != nil:
		return 0, c.errorf(gpu.ErrorOutOfMemory, "the host refused %d bytes of memory (%v)", bytes, err)
	case !found:
		return 0, c.errorf(gpu.ErrorOutOfMemory, "%d bytes requested, %d free, but no range of addresses is large enough", bytes, c.roomBytes())
	}
	c.check()
	return addr, nil
}

// affords returns an error if the card has fewer bytes left. Rounding up may wrap around, so there are two comparisons.
func (c *card) affords(bytes uint64) error {
	if room := c.roomBytes(); bytes > room || roundUp(bytes, unitBytes) > room {
		return c.errorf(gpu.ErrorOutOfMemory, "%d bytes requested, %d of %d free", bytes, room, c.description.TotalBytes)
	}
	return nil
}

// free frees the allocation at addr.
func (c *card) free(addr uint64) error {
	if !c.memory.free(addr) {
		return c.errorf(gpu.ErrorInvalidValue, "%#x is not the address of a live allocation", addr)
	}
	c.check()
	return nil
}

func (c *card) errorf(result gpu.Result, format string, args ...any) error {
	return fmt.Errorf("simulated GPU %d: %s: %w", c.description.Ordinal, fmt.Sprintf(format, args...), result)
}

// check checks invariants 2 and 3 of doc.go after a change.
func (c *card) check() {
	if !invariants.Enabled {
		return
	}
	charged := c.memory.charged + c.physical.charged
	if !c.description.Oversubscribes {
		charged += c.managed.charged
	}
	invariants.Check(charged <= c.description.TotalBytes-c.usedBytes, "sim 2: more charged than there is")
	invariants.Check(len(c.memory.live)+len(c.managed.live) == 0 || c.retains > 0, "sim 3: live allocations without a context")
}
