// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"hash/crc32"
	"math/rand/v2"
)

// The directory of a slot file has an entry for each slot, which says what the slot is:
//
//	 0   kind, 0 if the slot is free
//	 1   state of a claim
//	 4   which contents (4 bytes)
//	 8   when the claim looked last
//	28   CRC-32 of the slot and the rest
//
// It is written after the record. The contents are another number for another record, so that a process that has read
// the record need not read it again. A waiting claim writes the time since boot each time it looks: others tell by it
// that the claim is not stopped.
//
// A free slot's entry has a checksum too. So what is there by accident, zeros included, never makes a live lease
// disappear.
const entryBytes = 32

type entry struct {
	kind, state uint8
	contents    uint32
	looked      uint64
	damaged     bool // the checksum is wrong; the rest is 0
}

func entryOf(r *record) entry {
	return entry{kind: r.kind, state: r.state, contents: rand.Uint32(), looked: now()}
}

func (e entry) encode(slot int) []byte {
	b := make([]byte, entryBytes)
	b[0], b[1] = e.kind, e.state
	order.PutUint32(b[4:], e.contents)
	order.PutUint64(b[8:], e.looked)
	order.PutUint32(b[28:], entrySum(b, slot))
	return b
}

func decodeEntry(b []byte, slot int) entry {
	if order.Uint32(b[28:]) != entrySum(b, slot) {
		return entry{damaged: true}
	}
	return entry{kind: b[0], state: b[1], contents: order.Uint32(b[4:]), looked: order.Uint64(b[8:])}
}

// entrySum is the checksum of an entry. The slot is a part of it, so that an entry is not valid at another place.
func entrySum(b []byte, slot int) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte{uint8(slot)}), crc32.IEEETable, b[:28])
}

// emptyDirectory is the directory of a new file: all slots are free.
func emptyDirectory() (b []byte) {
	for slot := range slotsInFile {
		b = append(b, entry{}.encode(slot)...)
	}
	return b
}

func (e entry) isFree() bool    { return e.kind == 0 && !e.damaged }
func (e entry) isWaiting() bool { return e.kind == kindClaim && e.state == stateWaiting }

// A waiter that has not looked for stoppedAfter is stopped or frozen, and others pass it. A waiter looks at least once
// in longestLook.
const (
	stoppedAfter = 5_000_000_000 // nanoseconds
	longestLook  = 1_000_000_000
)

// isStopped reports whether a waiting claim had not looked for a time at some moment before the entry was read: who was
// stopped itself since then must not take the others for stopped. A time that is still to come counts as none; time
// namespaces may differ by a part of a second.
func (e entry) isStopped(at uint64) bool {
	return e.isWaiting() && (at > e.looked+stoppedAfter || e.looked > now()+longestLook)
}

// known is what this process knows of a slot from earlier looks.
type known struct {
	entry  entry
	record record
}

// isSame reports whether an entry stands for the record that is known.
func (k *known) isSame(e entry) bool { return k.entry.contents == e.contents && k.entry.kind == e.kind }
