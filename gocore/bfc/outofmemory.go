package bfc

import (
	"errors"
	"fmt"
	"strings"

	"gpuconf/gocore/chunks"
	"gpuconf/gocore/human"
	"gpuconf/gocore/status"
)

// Cause is why an allocation failed. The zero value is no cause.
type Cause int

// The causes, in the order in which they are looked for, but for the last, which comes second.
const (
	TooLarge       Cause = iota + 1 // the request is larger than the whole limit
	DeviceFull                      // the limit allows it, but the sub-allocator refused
	Fragmented                      // enough is free in all, but no piece of it is large enough
	LimitReached                    // not enough is left of the limit
	PendingStreams                  // enough is free, but queued work of other streams may touch it, and waiting for that failed
)

var causeNames = [...]string{"", "too large", "device full", "fragmented", "limit reached", "pending streams"}

// String names the cause in two words.
func (c Cause) String() string {
	if c < 0 || int(c) >= len(causeNames) {
		return ""
	}
	return causeNames[c]
}

// OutOfMemory is the error of an Allocate that found no memory. All sizes are bytes, as of the failure.
type OutOfMemory struct {
	Name        string // of the allocator
	Requested   uint64
	Rounded     uint64 // to a multiple of 256, or 2^64-1 if there is none
	Limit       uint64
	InUse       uint64 // sizes of live blocks
	Reserved    uint64 // sizes of regions
	FreeInPool  uint64 // Reserved - InUse
	LargestFree uint64 // largest free chunk
	Available   uint64 // of the limit, not taken from the device yet
	Captured    uint64 // of FreeInPool, kept for captures
	Movable     uint64 // whole granules, free or not yet reserved, that can be brought together; 0: the pool has none
	Cause       Cause
	Err         error // the sub-allocator's reason, or nil
}

// Error tells what happened, the numbers, and one next step.
func (e *OutOfMemory) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Allocator (%s) ran out of memory trying to allocate %s", e.Name, inFull(e.Requested))
	if e.Rounded > e.Requested {
		fmt.Fprintf(&b, " rounded to %d", e.Rounded)
	}
	fmt.Fprintf(&b, ": %s. Limit %s, in use %s, reserved %s, free in the pool %s, largest free piece %s, not yet reserved %s. %s",
		e.reason(), inFull(e.Limit), inFull(e.InUse), inFull(e.Reserved), inFull(e.FreeInPool), inFull(e.LargestFree),
		inFull(e.Available), e.nextStep())
	return b.String()
}

// Unwrap gives the sub-allocator's reason.
func (e *OutOfMemory) Unwrap() error { return e.Err }

func (e *OutOfMemory) reason() string {
	switch e.Cause {
	case TooLarge:
		return "the request is larger than the whole limit"
	case DeviceFull:
		return fmt.Sprintf("the limit allows it, but the device has no more to give (%v)", e.Err)
	case Fragmented:
		return "enough is free in all, but in pieces that are too small" + e.whyNotMoved()
	case PendingStreams:
		return fmt.Sprintf("enough is free, but other streams may still work on it and could not be waited for (%v)", e.Err)
	default:
		if e.Captured > 0 {
			return fmt.Sprintf("the limit is reached, and of what is free %s are kept for captured graphs", human.Bytes(e.Captured))
		}
		return "the limit is reached"
	}
}

// whyNotMoved tells why free memory was not moved together, if it can be moved at all.
func (e *OutOfMemory) whyNotMoved() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf(", and they could not be moved together (%v)", e.Err)
	case e.Movable > 0 && e.Movable >= e.Rounded:
		return ", and no place is left in the range of addresses to move them to"
	case e.Movable > 0:
		return fmt.Sprintf("; only %s are whole granules, which can be moved together", human.Bytes(e.Movable))
	default:
		return ""
	}
}

func (e *OutOfMemory) nextStep() string {
	switch e.Cause {
	case TooLarge:
		return "Ask for less, or raise the memory limit."
	case DeviceFull:
		return "Free blocks, or end other users of the device."
	case PendingStreams:
		return "Synchronize the other streams, then try again."
	case Fragmented:
		return "Free blocks that lie between free pieces, or allocate the largest blocks first."
	default:
		return "Free blocks, or raise the memory limit."
	}
}

// outOfMemoryLocked makes the error of a request that found no chunk. refusal is what the sub-allocator said, if it was asked.
func (a *Allocator) outOfMemoryLocked(s Stream, requested, rounded uint64, refusal error) error {
	spareBytes := a.spareBytesLocked()
	e := &OutOfMemory{
		Name:        a.name,
		Requested:   requested,
		Rounded:     rounded,
		Limit:       a.limitBytes,
		InUse:       a.stats.BytesInUse,
		Reserved:    a.stats.BytesReserved + spareBytes,
		FreeInPool:  a.stats.BytesReserved + spareBytes - a.stats.BytesInUse,
		LargestFree: a.largestWithSpareLocked(),
		Available:   a.sub.AvailableBytes() - spareBytes,
		Captured:    a.capturedBytesLocked(),
		Movable:     a.movableLocked(),
	}
	var unmoved errStitch
	switch {
	case rounded > e.Limit-e.Limit%chunks.Granularity:
		e.Cause = TooLarge
	case a.shared && a.pendingLocked(s, rounded):
		e.Cause, e.Err = PendingStreams, refusal
	case rounded <= e.Available+spareBytes || a.canGrowLocked(rounded, s):
		e.Cause, e.Err = DeviceFull, refusal
	case errors.As(refusal, &unmoved): // there was enough before
		e.Cause, e.Err = Fragmented, unmoved
	case rounded <= e.FreeInPool-e.Captured+e.Available:
		e.Cause = Fragmented
	default:
		e.Cause = LimitReached
	}
	return status.Errorf(status.ResourceExhausted, "%w", e)
}

// pendingLocked reports whether a request on stream s would be served if it could wait for all other streams.
func (a *Allocator) pendingLocked(s Stream, bytes uint64) bool {
	for other := range a.streams {
		a.streams[other].refuses = false
	}
	return a.windowLocked(s, bytes, true).first != chunks.None
}

// inFull writes a size exactly and for people: 1536 (1.5KiB).
func inFull(bytes uint64) string { return fmt.Sprintf("%d (%s)", bytes, human.Bytes(bytes)) }
