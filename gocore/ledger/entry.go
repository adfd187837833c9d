// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math/rand/v2"
	"time"
)

// entry is a slot's word in the directory of its file: 0 if the slot is free, else
//
//	0 kind (8 bits)   8 state of a claim (8)   16 beat (16)   32 which contents (32)
//
// It is written after the record. The last part is another number for other contents, so that a process that has read the record need not
// read it again. A waiting claim changes the beat each time it looks: others tell by it that the claim is not stopped.
type entry uint64

const (
	stateShift    = 8
	beatShift     = 16
	contentsShift = 32
)

func entryOf(r *record) entry {
	return entry(r.kind) | entry(r.state)<<stateShift | entry(rand.Uint32())<<contentsShift
}

func (e entry) kind() uint8      { return uint8(e) }
func (e entry) isWaiting() bool  { return e.kind() == kindClaim && uint8(e>>stateShift) == stateWaiting }
func (e entry) contents() uint32 { return uint32(e >> contentsShift) }

// beaten returns the entry with the next beat.
func (e entry) beaten() entry {
	beat := uint16(e>>beatShift) + 1
	return e&^(0xffff<<beatShift) | entry(beat)<<beatShift
}

// known is what this process knows of a slot from earlier looks.
type known struct {
	entry  entry
	record record
	quiet  time.Duration // how long this process has been looking without seeing a new beat
}

// asleepAfter is how long others wait for a waiting claim to look, before they pass it: its process is stopped, or frozen. A waiter looks
// at least once in longestLook.
const (
	asleepAfter = 5 * time.Second
	longestLook = time.Second
)

// saw takes over what a slot's entry is now, a time after the last look. It reports whether the record is the one that is known.
func (k *known) saw(now entry, since time.Duration) (same bool) {
	same = k.entry.contents() == now.contents() && k.entry.kind() == now.kind()
	k.quiet += min(since, longestLook) // if it is longer, this process was stopped itself
	if k.entry != now {
		k.quiet = 0
	}
	k.entry = now
	return same
}

func (k *known) isAsleep() bool { return k.entry.isWaiting() && k.quiet > asleepAfter }
