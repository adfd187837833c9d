// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"gpuconf/gocore/figures"
)

// A record is what a slot says, in a fixed layout:
//
//	 0 CRC-32 of the rest      4 length            8 kind, state, policy, cards or pools
//	12 count                  16 ID               32 pid
//	36 word of the wake file  40 start time       48 pid namespace
//	56 since                  64 ticket           72 order of the grant
//	80 lengths of the texts: name, job, command   86 -
//	88 cards: UUID (64), bytes, budget, total, leased; or pools: UUID (64), number
//	   then the texts
const (
	recordBytes = 8192 // of a slot; a process's figures begin at figuresAt
	headBytes   = 88
	uuidBytes   = 64
	cardBytes   = uuidBytes + 32
	poolBytes   = uuidBytes + 8
)

// The most that a record holds.
const (
	MostCards   = 64
	MostPools   = 32
	NameBytes   = 64
	JobBytes    = 64
	CommandText = 256
)

// mostBytes bounds every number of bytes, so that sums cannot overflow.
const mostBytes = 1 << 56

// ID identifies a claim. It is random and never reused.
type ID [16]byte

// String returns the ID as 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads what String returns.
func ParseID(text string) (id ID, ok bool) {
	data, err := hex.DecodeString(text)
	return ID(append(data, id[:]...)[:16]), err == nil && len(data) == len(id)
}

// The kinds of slots, and the states of a claim.
const (
	kindClaim   = 1
	kindProcess = 2

	stateWaiting = 1
	stateGranted = 2
)

// Policy says which of several cards with room a claim gets.
type Policy uint8

// The policies.
const (
	Spread Policy = iota // the card with most room
	Pack                 // the card with least room that fits
)

// Card is a card that a claim may use, or uses.
type Card struct {
	UUID   string
	Bytes  uint64 // needed on this card
	Budget uint64 // what all leases together may take now: Total less what processes outside the ledger use
	Total  uint64 // the card's memory less its reserve
	Leased bool
}

// Text is what the owner of a slot says of itself. Other users may have written it.
type Text struct{ Name, Job, Command string }

type record struct {
	entry       entry // as it is, or was last, in the directory; not a part of the record that is stored
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
}

var order = binary.LittleEndian

// encode returns the record as stored. The caller has checked the bounds.
func (r *record) encode() []byte {
	b := make([]byte, headBytes, headBytes+len(r.cards)*cardBytes+len(r.pools)*poolBytes+NameBytes+JobBytes+CommandText)
	b[8], b[9], b[10], b[11] = r.kind, r.state, uint8(r.policy), uint8(len(r.cards)+len(r.pools))
	order.PutUint32(b[12:], r.count)
	copy(b[16:], r.id[:])
	order.PutUint32(b[32:], uint32(r.process.PID))
	order.PutUint32(b[36:], r.word)
	for i, word := range []uint64{r.process.Start, r.process.Namespace, r.since, r.ticket, r.granted} {
		order.PutUint64(b[40+8*i:], word)
	}
	texts := []string{r.text.Name, r.text.Job, r.text.Command}
	for i, text := range texts {
		order.PutUint16(b[80+2*i:], uint16(len(text)))
	}
	for _, c := range r.cards {
		b = append(b, padded(c.UUID)...)
		for _, word := range []uint64{c.Bytes, c.Budget, c.Total, boolWord(c.Leased)} {
			b = order.AppendUint64(b, word)
		}
	}
	for _, p := range r.pools {
		b = order.AppendUint64(append(b, padded(p.UUID)...), uint64(p.Number))
	}
	b = append(b, strings.Join(texts, "")...)
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

// decode reads what encode wrote. Anybody may have written the bytes: why says what is wrong with them, or "".
func decode(b []byte) (r record, why string) {
	if len(b) < headBytes {
		return r, "a slot is cut off"
	}
	length := order.Uint32(b[4:])
	if length < headBytes || int(length) > len(b) {
		return r, "the length of a slot is wrong"
	}
	b = b[:length]
	if order.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
		return r, "the checksum of a slot is wrong"
	}
	r = record{kind: b[8], state: b[9], policy: Policy(b[10]), count: order.Uint32(b[12:]), id: ID(b[16:32]), since: order.Uint64(b[56:]),
		ticket: order.Uint64(b[64:]), granted: order.Uint64(b[72:]), word: order.Uint32(b[36:]),
		process: Process{PID: int(order.Uint32(b[32:])), Start: order.Uint64(b[40:]), Namespace: order.Uint64(b[48:])}}
	rest := b[headBytes:]
	ok := r.ticket < 1<<62 && r.granted < 1<<62 && r.word < mostWords
	switch {
	case r.kind == kindClaim && b[11] <= MostCards:
		rest, ok = r.decodeCards(rest, int(b[11]), ok)
	case r.kind == kindProcess && b[11] <= MostPools:
		rest, ok = r.decodePools(rest, int(b[11]), ok)
	default:
		ok = false
	}
	if ok {
		ok = r.decodeTexts(b, rest)
	}
	if !ok {
		return record{}, "the contents of a slot are invalid"
	}
	return r, ""
}

func (r *record) decodeCards(b []byte, count int, ok bool) ([]byte, bool) {
	isValid := r.state == stateWaiting || r.state == stateGranted
	if !ok || !isValid || r.policy > Pack || r.count < 1 || int(r.count) > count || len(b) < count*cardBytes {
		return nil, false
	}
	leased := 0
	for ; count > 0; count-- {
		c := Card{Bytes: order.Uint64(b[uuidBytes:]), Budget: order.Uint64(b[uuidBytes+8:]), Total: order.Uint64(b[uuidBytes+16:]), Leased: b[uuidBytes+24] != 0}
		if c.UUID, ok = uuidOf(b); !ok || c.Bytes == 0 || max(c.Bytes, c.Budget, c.Total) > mostBytes || c.Budget > c.Total {
			return nil, false
		}
		if c.Leased {
			leased++
		}
		r.cards, b = append(r.cards, c), b[cardBytes:]
	}
	return b, r.state == stateWaiting && leased == 0 || r.state == stateGranted && leased == int(r.count)
}

func (r *record) decodePools(b []byte, count int, ok bool) ([]byte, bool) {
	if !ok || len(b) < count*poolBytes {
		return nil, false
	}
	for ; count > 0; count-- {
		p := figures.Place{Number: int(order.Uint64(b[uuidBytes:]))}
		if p.UUID, ok = uuidOf(b); !ok || p.Number < 0 || p.Number > 1<<20 {
			return nil, false
		}
		r.pools, b = append(r.pools, p), b[poolBytes:]
	}
	return b, true
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

func (r *record) decodeTexts(head, b []byte) bool {
	for i, text := range []*string{&r.text.Name, &r.text.Job, &r.text.Command} {
		n := int(order.Uint16(head[80+2*i:]))
		if n > len(b) {
			return false
		}
		*text, b = Clean(string(b[:n]), CommandText), b[n:]
	}
	return len(b) == 0
}

// Clean returns text that is safe to show on a terminal, of at most so many bytes: no control characters, valid UTF-8.
func Clean(text string, most int) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x2028 || c == 0x2029 || c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069 {
			return ' ' // also the marks that reverse the direction of text
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	for len(text) > most {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
