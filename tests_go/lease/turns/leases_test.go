package turns_test

import (
	"fmt"
	"slices"

	"gpuconf/gocore/lease/ledger"
)

// leases is what the schedules of a test have for a ledger: the decisions of the real one on numbers in memory, or the
// real one (inLedger).
type leases interface {
	claim(j *job) error           // it waits, or is granted at once
	look(j *job) (bool, error)    // whether its claim is granted
	reserve(j *job) (bool, error) // room for it in the host's memory
	unreserve(j *job) error
	park(j *job) error
	comeBack(j *job) error // with the claim that was granted
	release(j *job) error  // all that it has
	sound() error
}

// inMemory decides as the ledger does.
type inMemory struct {
	host    uint64
	waiting []*job // in the order of their tickets
	leases  map[*job][]ledger.Card
	rooms   map[*job]uint64
	parked  map[*job]bool
}

func newInMemory(host uint64) *inMemory {
	return &inMemory{host: host, leases: map[*job][]ledger.Card{}, rooms: map[*job]uint64{}, parked: map[*job]bool{}}
}

func (b *inMemory) claim(j *job) error {
	b.waiting = append(b.waiting, j)
	return nil
}

func (b *inMemory) leased() map[string]uint64 {
	leased := map[string]uint64{}
	for j, cards := range b.leases {
		if !b.parked[j] {
			for _, c := range cards {
				leased[c.UUID] += c.Charge
			}
		}
	}
	return leased
}

func (b *inMemory) look(j *job) (bool, error) {
	place := slices.Index(b.waiting, j)
	var queue []ledger.Wanted
	for _, w := range b.waiting[:place+1] {
		queue = append(queue, w.wanted())
	}
	taken := ledger.Decide(b.leased(), queue)[place]
	if taken == nil {
		return false, nil
	}
	var cards []ledger.Card
	for _, i := range taken {
		cards = append(cards, queue[place].Cards[i])
	}
	b.waiting = slices.Delete(b.waiting, place, place+1)
	if b.parked[j] { // it is another claim than the parked one
		j.back = cards
		j.shadow = &job{name: j.name + "'"}
		b.leases[j.shadow] = cards
		return true, nil
	}
	b.leases[j] = cards
	return true, nil
}

func (b *inMemory) reserve(j *job) (bool, error) {
	reserved := uint64(0)
	for _, bytes := range b.rooms {
		reserved += bytes
	}
	if reserved+j.bytes() > b.host {
		return false, nil
	}
	b.rooms[j] = j.bytes()
	return true, nil
}

func (b *inMemory) unreserve(j *job) error { delete(b.rooms, j); return nil }
func (b *inMemory) park(j *job) error      { b.parked[j] = true; return nil }

func (b *inMemory) comeBack(j *job) error {
	b.leases[j] = b.leases[j.shadow]
	delete(b.leases, j.shadow)
	delete(b.parked, j)
	j.shadow = nil
	return nil
}

func (b *inMemory) release(j *job) error {
	b.waiting = slices.DeleteFunc(b.waiting, func(w *job) bool { return w == j })
	delete(b.leases, j)
	delete(b.leases, j.shadow)
	delete(b.rooms, j)
	delete(b.parked, j)
	return nil
}

func (b *inMemory) sound() error {
	for card, bytes := range b.leased() {
		if bytes > cardBytes {
			return fmt.Errorf("invariant 1: %d GiB of card %s are leased", bytes/gib, card)
		}
	}
	reserved := uint64(0)
	for j, bytes := range b.rooms {
		reserved += bytes
		if b.parked[j] && bytes < j.bytes() {
			return fmt.Errorf("invariant 5: %s has reserved %d of %d bytes", j.name, bytes, j.bytes())
		}
	}
	if reserved > b.host {
		return fmt.Errorf("invariant 5: %d of %d bytes of the host are reserved", reserved, b.host)
	}
	return nil
}

// inLedger is a ledger in a folder. The agents and programs of the test are all in this process.
type inLedger struct {
	ledger *ledger.Ledger
	host   uint64
	filled uint64 // of the host's memory, by parked programs
}

func (b *inLedger) request(j *job) ledger.Request {
	w := j.wanted()
	return ledger.Request{Cards: w.Cards, Count: w.Count, Text: ledger.Text{Name: j.name}}
}

func (b *inLedger) claim(j *job) error {
	c, err := b.ledger.Claim(b.request(j))
	if j.claim == nil {
		j.claim = c
	} else {
		j.again = c
	}
	return err
}

func (b *inLedger) look(j *job) (bool, error) {
	c := j.claim
	if j.again != nil {
		c = j.again
	}
	granted, _, err := c.Look(nil)
	if granted && j.again != nil {
		j.back = nil
		for _, lease := range c.Cards() {
			j.back = append(j.back, card(lease.UUID, lease.Bytes))
		}
	}
	return granted, err
}

func (b *inLedger) reserve(j *job) (bool, error) {
	return j.claim.Reserve(j.bytes(), ledger.Host{Total: b.host, Available: b.host - b.filled, Group: b.host})
}

func (b *inLedger) unreserve(j *job) error { return j.claim.Unreserve() }

func (b *inLedger) park(j *job) error {
	b.filled += j.bytes()
	return j.claim.Park()
}

func (b *inLedger) comeBack(j *job) error {
	b.filled -= j.bytes()
	err := j.claim.Return(j.again)
	j.again = nil
	return err
}

func (b *inLedger) release(j *job) error {
	if j.parkedNow() {
		b.filled -= j.bytes()
	}
	for _, c := range []*ledger.Claim{j.claim, j.again} {
		if c != nil {
			c.Release()
		}
	}
	j.claim, j.again = nil, nil
	return nil
}

func (b *inLedger) sound() error {
	if findings := b.ledger.Check(); len(findings) > 0 {
		return fmt.Errorf("the ledger is not sound: %v", findings)
	}
	return nil
}
