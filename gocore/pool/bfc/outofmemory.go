// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/pool/chunks"
)

// Cause is why an allocation failed. The zero value is no cause.
type Cause int

// The causes, in the order in which they are checked, except that PendingStreams is checked second.
const (
	TooLarge     Cause = iota + 1 // the request is larger than the whole limit
	DeviceFull                    // the limit allows it, but the sub-allocator refused
	Fragmented                    // enough memory is free in total, but no single piece is large enough
	LimitReached                  // too little is left of the limit
	// PendingStreams means that enough is free, but queued work of other streams may touch it, and waiting for that
	// work failed.
	PendingStreams
	Injected // a Failure requested it
)

var causeNames = [...]string{"", "too large", "device full", "fragmented", "limit reached",
	"pending streams", "injected"}

// String names the cause in two words.
func (c Cause) String() string {
	if c < 0 || int(c) >= len(causeNames) {
		return ""
	}
	return causeNames[c]
}

// OutOfMemory is the error of an allocation that found no memory. All sizes are bytes at the time of the failure.
type OutOfMemory struct {
	Name        string // of the allocator
	Requested   uint64 // the size of the request
	Rounded     uint64 // to a multiple of 256, or 2^64-1 if there is none
	Limit       uint64 // the most that the pool may reserve
	InUse       uint64 // sizes of live blocks
	Reserved    uint64 // sizes of regions and spare memory
	FreeInPool  uint64 // Reserved - InUse
	LargestFree uint64 // the largest free chunk, including spare memory beside it
	LiveBlocks  uint64 // the number of live blocks
	Available   uint64 // of the limit, not yet reserved
	Captured    uint64 // of FreeInPool, kept for captures
	// Movable is the memory in whole granules, free or not yet reserved, that can be moved together. It is 0 if the
	// pool has no granules.
	Movable uint64
	Cause   Cause // why the allocation failed
	Err     error // the sub-allocator's reason, or nil

	Holdings []Holding // who holds the most memory, the largest first; at most mostHoldings
	Others   Holding   // the sum of all others, without a holder; its Blocks are 0 if there are none
	Holders  int       // the number of others
}

// Error states what happened, with the numbers.
func (e *OutOfMemory) Error() string {
	text := fmt.Sprintf("allocator %s is out of memory for %s", e.Name, human.Exact(e.Requested))
	if e.Rounded > e.Requested {
		text += fmt.Sprintf(", rounded to %d", e.Rounded)
	}
	return fmt.Sprintf("%s: %s (%s, not yet reserved %s)", text, e.Reason(), e.Figures(), human.Exact(e.Available))
}

// Unwrap returns the sub-allocator's reason.
func (e *OutOfMemory) Unwrap() error { return e.Err }

// HeldBy lists the holders of the memory in use, a clause each: "torch, tag optimizer: 3.00GiB (3221225472 bytes) in 12
// blocks, allocated at train.py:12 (step)".
func (e *OutOfMemory) HeldBy() (clauses []string) {
	for _, h := range e.Holdings {
		clauses = append(clauses, h.String())
	}
	if e.Others.Blocks > 0 {
		clauses = append(clauses, human.Count(uint64(e.Holders), "other")+": "+e.Others.size())
	}
	return clauses
}

// Figures formats the allocator's numbers.
func (e *OutOfMemory) Figures() string {
	return fmt.Sprintf("limit %s, in use %s in %s, reserved %s, largest free block %s",
		human.Exact(e.Limit), human.Exact(e.InUse), human.Count(e.LiveBlocks, "block"), human.Exact(e.Reserved),
		human.Exact(e.LargestFree))
}

// Reason says why there is no memory, as a clause. It is the only wording of the causes: every report of an OutOfMemory
// quotes it, but for a GPU that refused at the limit of a job, which bfc does not know.
func (e *OutOfMemory) Reason() string {
	switch e.Cause {
	case TooLarge:
		return "the request is larger than the limit"
	case DeviceFull:
		return fmt.Sprintf("the limit was not reached, but the GPU refused (%s)", roots(e.Err))
	case Fragmented:
		return "enough memory is free, but it is fragmented" + e.whyNotMoved()
	case PendingStreams:
		return fmt.Sprintf("enough memory is free, but work queued in other streams may still use it, and waiting "+
			"for them failed (%s)", roots(e.Err))
	case Injected:
		return "an injected failure, which a test requested"
	default:
		if e.Captured > 0 {
			return fmt.Sprintf("the limit is reached, and %s of free memory are kept for captured graphs",
				human.Exact(e.Captured))
		}
		return "the limit is reached"
	}
}

// whyNotMoved says why free memory was not moved together, if the pool can move memory at all.
func (e *OutOfMemory) whyNotMoved() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf(", and moving it together failed (%s)", roots(e.Err))
	case e.Movable > 0 && e.Movable >= e.Rounded:
		return ", and the address range has no place left to move it to"
	case e.Movable > 0:
		return fmt.Sprintf("; only %s are in whole granules, which can be moved together", human.Exact(e.Movable))
	default:
		return ""
	}
}

// roots lists the innermost errors, such as the driver's own, each once. errLimit and errNoPlace are left out if there
// are others.
func roots(err error) string {
	var texts []string
	eachRoot(err, func(root error) {
		if text := root.Error(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	})
	if len(texts) == 0 {
		return fmt.Sprint(err)
	}
	return strings.Join(texts, "; ")
}

func eachRoot(err error, visit func(error)) {
	if err == errLimit || err == errNoPlace {
		return
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			eachRoot(inner, visit)
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			eachRoot(inner, visit)
			return
		}
		visit(err)
	default:
		visit(err)
	}
}

// outOfMemoryLocked returns the error of a request that found no chunk. refusal is the sub-allocator's error, or nil
// if it was not called.
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
		LiveBlocks:  uint64(a.index.Count()),
		Available:   a.sub.AvailableBytes() - spareBytes,
		Captured:    a.capturedBytesLocked(),
		Movable:     a.movableLocked(),
	}
	e.Holdings, e.Others, e.Holders = a.holdingsLocked()
	var unmoved errStitch
	switch {
	case refusal == errInjected:
		e.Cause, e.Err = Injected, refusal
	case rounded > e.Limit-e.Limit%chunks.Granularity:
		e.Cause = TooLarge
	case a.shared && a.pendingLocked(s, rounded):
		e.Cause, e.Err = PendingStreams, refusal
	case rounded <= e.Available+spareBytes || a.canGrowLocked(rounded, s):
		e.Cause, e.Err = DeviceFull, refusal
	case errors.As(refusal, &unmoved): // there was enough memory before
		e.Cause, e.Err = Fragmented, unmoved
	case rounded <= e.FreeInPool-e.Captured+e.Available:
		e.Cause = Fragmented
	default:
		e.Cause = LimitReached
	}
	return status.Errorf(status.ResourceExhausted, "%w", e)
}

// pendingLocked reports whether a request on stream s would succeed if it could wait for all other streams.
func (a *Allocator) pendingLocked(s Stream, bytes uint64) bool {
	for other := range a.streams {
		a.streams[other].refuses = false
	}
	return a.windowLocked(s, bytes, true).first != chunks.None
}

// Holding is memory of one holder. If a recording with stacks is running, it is what one call site has allocated.
type Holding struct {
	Holder holder.ID   // who requested the blocks
	Site   trace.Frame // where the blocks were allocated; the zero value: unknown
	Bytes  uint64      // the sizes of live blocks
	Blocks uint64      // the number of live blocks
}

// mostHoldings is the number of holdings that a report lists.
const mostHoldings = 5

// String returns "torch, tag optimizer: 3.00GiB (3221225472 bytes) in 12 blocks, allocated at train.py:12 (step)".
func (h Holding) String() string {
	text := h.Holder.Library().String() + ", "
	if tag := h.Holder.Tag().String(); tag != "" {
		text += "tag " + tag
	} else {
		text += "untagged"
	}
	text += ": " + h.size()
	if h.Site != (trace.Frame{}) {
		text += ", allocated at " + h.Site.String()
	}
	return text
}

func (h Holding) size() string { return human.Exact(h.Bytes) + " in " + human.Count(h.Blocks, "block") }

// holdingsLocked returns who holds the most memory, the sum of all others, and their number.
func (a *Allocator) holdingsLocked() (most []Holding, others Holding, rest int) {
	if a.sites == nil {
		most = a.holdingsByRowLocked()
	} else {
		most = a.holdingsBySiteLocked()
	}
	slices.SortStableFunc(most, func(g, h Holding) int { return cmp.Compare(h.Bytes, g.Bytes) })
	for _, h := range most[min(len(most), mostHoldings):] {
		others.Bytes, others.Blocks = others.Bytes+h.Bytes, others.Blocks+h.Blocks
		rest++
	}
	return most[:min(len(most), mostHoldings)], others, rest
}

func (a *Allocator) holdingsByRowLocked() (list []Holding) {
	for _, by := range a.seen {
		if r := &a.rows[by]; r.blocks > 0 {
			list = append(list, Holding{Holder: by, Bytes: r.bytes, Blocks: r.blocks})
		}
	}
	return list
}

// holdingsBySiteLocked walks all chunks.
func (a *Allocator) holdingsBySiteLocked() (list []Holding) {
	type key struct {
		holder holder.ID
		site   trace.Frame
	}
	frames := map[uint32]trace.Frame{0: {}}
	places := map[key]int{}
	for _, r := range a.regions {
		for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
			c := &a.chunks.Records[i]
			if c.Free() || c.Held() {
				continue
			}
			frame, known := frames[a.sites[i]]
			if !known {
				frame, _ = a.ring.Sites().Stack(a.sites[i]).CallSite()
				frames[a.sites[i]] = frame
			}
			k := key{c.Holder(), frame}
			at, known := places[k]
			if !known {
				at = len(list)
				places[k], list = at, append(list, Holding{Holder: k.holder, Site: frame})
			}
			list[at].Bytes += c.Bytes()
			list[at].Blocks++
		}
	}
	return list
}
