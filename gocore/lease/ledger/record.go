// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpuconf/gocore/pool/figures"
)

// A record is what a slot says. It grows without locking out older readers: they find each part by the lengths that the
// record gives, and skip what they do not know.
//
//	 0 CRC-32 of the rest        4 length                       8 length of the head (2), of a row (2)
//	12 version of its writer (2), least version that reads all (2)
//	16 kind, state, policy, -   20 rows (2), lengths of the texts: name, job, command (2 each)
//	28 count                    32 ID                          48 pid, word of the wake file
//	56 start time               64 pid namespace               72 since
//	80 ticket                   88 order of the grant
//	   rows: of cards: UUID (64), bytes, charge, budget, total, leased; of pools: UUID (64), number
//	   the texts
//	   the tail: items of a tag (2), a length (2), and that many bytes
//
// A reader whose version is less than the least one still sums the leased cards, which any later version writes in the
// same way. It cannot know what such a claim waits for, and passes it.
const (
	recordBytes = 8192 // of a slot; a process's figures begin at figuresAt
	headBytes   = 96
	uuidBytes   = 64
	cardBytes   = uuidBytes + 40
	poolBytes   = uuidBytes + 8
)

// The most that a record holds.
const (
	MostCards   = 64
	MostPools   = 32
	NameBytes   = 64
	JobBytes    = 64
	CommandText = 256

	MostContexts = 1 << 16 // CUDA contexts that a claim has room for
)

// mostBytes bounds every number of bytes, so that sums cannot overflow.
const mostBytes = 1 << 56

const mostPID = 1 << 22 // of Linux

// ID identifies a claim. It is random and never reused.
type ID [16]byte

// String returns the ID as 32 hexadecimal digits; "" for the zero ID, which no claim has.
func (id ID) String() string {
	if id == (ID{}) {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// ParseID reads what String returns.
func ParseID(text string) (id ID, ok bool) {
	data, err := hex.DecodeString(text)
	return ID(append(data, id[:]...)[:16]), err == nil && len(data) == len(id)
}

// The kinds of slots, and the states of a claim.
const (
	kindClaim   = 1
	kindProcess = 2
	kindParked  = 3 // in the directory: what is in the slot is a claim (parked.go)

	stateWaiting = 1
	stateGranted = 2
	stateParked  = 3 // never stored
)

// State is whether a claim has its cards.
type State uint8

// The states, as others see them.
const (
	Waiting State = stateWaiting
	Granted State = stateGranted
	Parked  State = stateParked
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Granted:
		return "granted"
	case Parked:
		return "parked"
	}
	return "waiting"
}

// Policy says which of several cards with room a claim gets.
type Policy uint8

// The policies.
const (
	Spread Policy = iota // the card with most room
	Pack                 // the card with least room that fits
)

// Card is a card that a claim may use, or uses.
type Card struct {
	UUID   string `py:"uuid"`   // "GPU-..." or "MIG-..."
	Bytes  uint64 `py:"bytes"`  // the memory that the program may use on the card
	Charge uint64 `py:"charge"` // what counts in all sums: these bytes or more; in a request, 0 means these bytes
	// The most that all leases together may take now: the total less what processes outside the ledger use.
	Budget uint64 `py:"budget"`
	Total  uint64 `py:"total"` // the card's memory less its reserve
	Leased bool   `py:"-"`     // whether the claim leases the card
}

// Text is what the owner of a slot says of itself. Other users may have written it.
type Text struct {
	Name    string `py:"name"`    // of the lease; each text may be ""
	Job     string `py:"job"`     // the name of the lease's job
	Command string `py:"command"` // the command line
}

type record struct {
	entry       entry // as it is, or was last, in the directory; not a part of the record that is stored
	newer       bool  // a later version wrote more than this one understands: only its leased cards count
	kind, state uint8
	policy      Policy
	count       uint32 // of cards that the claim needs
	id          ID     // of the claim; of a process: of the claim that it belongs to, or zero
	process     Process
	since       uint64 // the time since boot, in nanoseconds: of the request, then of the grant
	ticket      uint64 // the order of requests
	granted     uint64 // the order of grants
	word        uint32 // of the wake file, on which the claim waits
	cards       []Card
	pools       []figures.Place
	text        Text
	Later       // what later versions added
}

var order = binary.LittleEndian

// encode returns the record as stored. The caller has checked the bounds.
func (r *record) encode() []byte {
	b := make([]byte, headBytes,
		headBytes+len(r.cards)*cardBytes+len(r.pools)*poolBytes+NameBytes+JobBytes+CommandText+tailBytes)
	row := cardBytes
	if r.kind == kindProcess {
		row = poolBytes
	}
	for i, half := range []int{headBytes, row, version, leastReader} {
		order.PutUint16(b[8+2*i:], uint16(half))
	}
	b[16], b[17], b[18] = r.kind, r.state, uint8(r.policy)
	texts := []string{r.text.Name, r.text.Job, r.text.Command}
	for i, half := range []int{len(r.cards) + len(r.pools), len(texts[0]), len(texts[1]), len(texts[2])} {
		order.PutUint16(b[20+2*i:], uint16(half))
	}
	order.PutUint32(b[28:], r.count)
	copy(b[32:], r.id[:])
	order.PutUint32(b[48:], uint32(r.process.PID))
	order.PutUint32(b[52:], r.word)
	for i, word := range []uint64{r.process.Start, r.process.Namespace, r.since, r.ticket, r.granted} {
		order.PutUint64(b[56+8*i:], word)
	}
	for _, c := range r.cards {
		b = append(b, padded(c.UUID)...)
		for _, word := range []uint64{c.Bytes, c.Charge, c.Budget, c.Total, boolWord(c.Leased)} {
			b = order.AppendUint64(b, word)
		}
	}
	for _, p := range r.pools {
		b = order.AppendUint64(append(b, padded(p.UUID)...), uint64(p.Number))
	}
	b = r.appendTail(append(b, strings.Join(texts, "")...))
	order.PutUint32(b[4:], uint32(len(b)))
	order.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return b
}

func padded(uuid string) []byte { return append([]byte(uuid), make([]byte, uuidBytes-len(uuid))...) }

func boolWord(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// decode reads what encode wrote, in this version or a later one. Anybody may have written the bytes: why says what is
// wrong with them, or "".
func decode(b []byte) (r record, why string) {
	if len(b) < headBytes {
		return r, "a slot is cut off"
	}
	length := order.Uint32(b[4:])
	if length < headBytes || int64(length) > int64(len(b)) {
		return r, "the length of a slot is wrong"
	}
	b = b[:length]
	if order.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
		return r, "the checksum of a slot is wrong"
	}
	r = record{newer: order.Uint16(b[14:]) > version, kind: b[16], state: b[17], policy: Policy(b[18]),
		count: order.Uint32(b[28:]), id: ID(b[32:48]),
		since: order.Uint64(b[72:]), ticket: order.Uint64(b[80:]), granted: order.Uint64(b[88:]),
		word:    order.Uint32(b[52:]),
		process: Process{PID: int(order.Uint32(b[48:])), Start: order.Uint64(b[56:]), Namespace: order.Uint64(b[64:])}}
	if !r.decodeRest(b) {
		return record{}, "the contents of a slot are invalid"
	}
	return r, ""
}

// decodeRest reads what follows the numbers of the head.
func (r *record) decodeRest(b []byte) bool {
	head, row, rows := int(order.Uint16(b[8:])), int(order.Uint16(b[10:])), int(order.Uint16(b[20:]))
	if head < headBytes || len(b)-head < rows*row || r.word >= mostWords || r.process.PID > mostPID {
		return false
	}
	lists, rest := b[head:head+rows*row], b[head+rows*row:]
	switch {
	case r.kind == kindClaim && rows <= MostCards && row >= cardBytes:
		if !r.decodeCards(slices.Collect(slices.Chunk(lists, row))) {
			return false
		}
	case r.kind == kindProcess && rows <= MostPools && row >= poolBytes:
		if !r.decodePools(slices.Collect(slices.Chunk(lists, row))) {
			return false
		}
	default:
		return false
	}
	tail, ok := r.decodeTexts(b, rest)
	return ok && r.decodeTail(tail)
}

func (r *record) decodeCards(rows [][]byte) bool {
	leased := 0
	for _, b := range rows {
		c := Card{Bytes: order.Uint64(b[uuidBytes:]), Charge: order.Uint64(b[uuidBytes+8:]),
			Budget: order.Uint64(b[uuidBytes+16:]),
			Total:  order.Uint64(b[uuidBytes+24:]), Leased: order.Uint64(b[uuidBytes+32:]) != 0}
		var ok bool
		if c.UUID, ok = uuidOf(b); !ok || c.Bytes == 0 || c.Charge < c.Bytes ||
			max(c.Charge, c.Budget, c.Total) > mostBytes || c.Budget > c.Total {
			return false
		}
		if c.Leased {
			leased++
		}
		r.cards = append(r.cards, c)
	}
	if r.newer {
		return len(rows) > 0
	}
	agrees := r.state == stateWaiting && leased == 0 || r.state == stateGranted && leased == int(r.count)
	return agrees && r.policy <= Pack && r.count >= 1 && int64(r.count) <= int64(len(rows))
}

func (r *record) decodePools(rows [][]byte) bool {
	for _, b := range rows {
		number := order.Uint64(b[uuidBytes:])
		uuid, ok := uuidOf(b)
		if !ok || number > 1<<20 {
			return false
		}
		r.pools = append(r.pools, figures.Place{UUID: uuid, Number: int(number)})
	}
	return true
}

// isLease reports whether a claim is granted. What a later version granted may have another state.
func (r *record) isLease() bool {
	return slices.ContainsFunc(r.cards, func(c Card) bool { return c.Leased })
}

func uuidOf(b []byte) (string, bool) {
	text, padding, _ := bytes.Cut(b[:uuidBytes], []byte{0})
	return string(text), isUUID(string(text)) && len(bytes.Trim(padding, "\x00")) == 0
}

// isUUID accepts the UUIDs of GPUs and MIG instances, real and simulated.
func isUUID(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(text) > 0 && len(text) <= uuidBytes
}

func (r *record) decodeTexts(head, b []byte) (rest []byte, ok bool) {
	for i, text := range []*string{&r.text.Name, &r.text.Job, &r.text.Command} {
		n := int(order.Uint16(head[22+2*i:]))
		if n > len(b) {
			return nil, false
		}
		*text, b = Clean(string(b[:n]), CommandText), b[n:]
	}
	return b, true
}

// Clean returns text that is safe to show on a terminal, of at most so many bytes: valid UTF-8 without control
// characters, marks that change the direction of text, and what cannot be seen.
func Clean(text string, most int) string {
	text = strings.Map(func(c rune) rune {
		if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	for len(text) > most {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

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

// The tail of a record has what later versions added to it. A reader skips the tags that it does not know.
const (
	tagContexts  = 1 // of a claim: how many CUDA contexts its charge has room for on each card (4); without it unknown
	tagTurns     = 2 // of a claim: what a program that takes turns says of itself: nine numbers (8 each), a text
	tagLent      = 3 // of a claim: how many bytes of each card are lent to it (8)
	tagHeadBytes = 4 // tag, length
	tailBytes    = 3*tagHeadBytes + 4 + 8 + turnsBytes + UnfitText
)

// Later is what versions after 3 added to a claim: the part of its record that is in the tail. What is added here is in
// requests and in the rows of claims, too.
type Later struct {
	// How many CUDA contexts the charge has room for on each card; 0 if that is not known, as of an older gpuconf.
	Contexts int   `py:"contexts"`
	Turns    Turns `py:"-"` // what Claim.Say said
	// How many bytes of each card are lent to a granted claim, of those that it leases (lent.go). 0 in a request.
	Lent uint64 `py:"lent"`
}

func (r *Later) appendTail(b []byte) []byte {
	if r.Contexts != 0 {
		b = appendHead(b, tagContexts, 4)
		b = order.AppendUint32(b, uint32(r.Contexts))
	}
	if r.Turns != (Turns{}) {
		b = appendHead(b, tagTurns, turnsBytes+len(r.Turns.Unfit))
		b = r.Turns.append(b)
	}
	if r.Lent != 0 {
		b = order.AppendUint64(appendHead(b, tagLent, 8), r.Lent)
	}
	return b
}

func appendHead(b []byte, tag, length int) []byte {
	return order.AppendUint16(order.AppendUint16(b, uint16(tag)), uint16(length))
}

// decodeTail reads the items that it knows, and reports whether the tail is one. Anybody may have written it.
func (r *Later) decodeTail(b []byte) bool {
	for len(b) > 0 {
		if len(b) < tagHeadBytes || len(b)-tagHeadBytes < int(order.Uint16(b[2:])) {
			return false
		}
		end := tagHeadBytes + int(order.Uint16(b[2:]))
		switch tag, value := order.Uint16(b), b[tagHeadBytes:end]; {
		case tag == tagContexts && len(value) >= 4:
			r.Contexts = int(min(order.Uint32(value), MostContexts))
		case tag == tagTurns && len(value) >= turnsBytes:
			r.Turns = decodeTurns(value)
		case tag == tagLent && len(value) >= 8:
			r.Lent = min(order.Uint64(value), mostBytes)
		}
		b = b[end:]
	}
	return true
}
