// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
)

// Request is for bytes on a number of cards, all or nothing.
type Request struct {
	Cards  []Card `py:"cards"`  // the candidates, of which the policy picks; Leased is ignored
	Count  int    `py:"count"`  // the number of cards that are needed
	Policy Policy `py:"policy"` // which of the candidates with room to prefer
	Text          // what others read about it
	Later         // what versions after 3 added
}

// Claim is a request of this process: waiting, granted or released. It is safe for concurrent use.
type Claim struct {
	ledger *Ledger

	mu       sync.Mutex
	held     holding // guarded by mu, as are all fields below
	record   record
	released bool
	adopted  bool // constant: another process made it
	toucher  *time.Timer
}

// patience is how long a call waits for the grant lock in Go. Others hold it for microseconds.
const patience = 100 * time.Millisecond

// Claim enters a request. It is granted at once if there is room and no older request is delayed; otherwise call Look
// until it is.
func (l *Ledger) Claim(request Request) (*Claim, error) {
	if err := l.checkRequest(&request); err != nil {
		return nil, err
	}
	c := &Claim{ledger: l, record: record{kind: kindClaim, state: stateWaiting, policy: request.Policy,
		count: uint32(request.Count), process: l.self, since: now(), cards: request.Cards, text: request.Text,
		Later: request.Later}}
	_, _ = rand.Read(c.record.id[:]) // never fails
	c.record.word = order.Uint32(c.record.id[:]) % mostWords
	if err := refuseLost(l.olderLeases()); err != nil {
		return nil, err
	}
	if err := l.enter(c.enter); err != nil {
		return nil, err
	}
	c.touch()
	return c, nil
}

func (c *Claim) enter(v *view, held holding) error {
	c.held, c.record.ticket = held, v.nextTicket()
	v.grant(held, &c.record)
	return c.ledger.write(held, &c.record)
}

func (l *Ledger) checkRequest(r *Request) error {
	if len(r.Cards) == 0 || len(r.Cards) > MostCards {
		return status.Errorf(status.InvalidArgument, "a claim names 1 to %d cards, not %d", MostCards, len(r.Cards))
	}
	if r.Contexts < 0 || r.Contexts > MostContexts {
		return status.Errorf(status.InvalidArgument, "a claim has room for 0 to %d contexts, not %d",
			MostContexts, r.Contexts)
	}
	if r.Count < 1 || r.Count > len(r.Cards) {
		return status.Errorf(status.InvalidArgument, "%s requested, but there are only %d",
			human.Count(uint64(max(r.Count, 0)), "card"), len(r.Cards))
	}
	if r.Lent != 0 {
		return status.Errorf(status.InvalidArgument, "memory is lent to claims that are granted")
	}
	r.Cards = slices.Clone(r.Cards) // the caller may use its own for another claim
	seen, possible := map[string]bool{}, 0
	for i := range r.Cards {
		c := &r.Cards[i]
		c.Leased = false
		if !isUUID(c.UUID) || seen[c.UUID] {
			return status.Errorf(status.InvalidArgument, "a card's UUID is invalid or named twice: %q", c.UUID)
		}
		seen[c.UUID] = true
		if c.Charge == 0 {
			c.Charge = c.Bytes
		}
		if c.Bytes == 0 || c.Charge < c.Bytes || c.Charge > mostBytes || c.Total > mostBytes {
			return status.Errorf(status.InvalidArgument, "a claim of %d bytes on %s that takes %d is invalid", c.Bytes,
				c.UUID, c.Charge)
		}
		c.Budget = min(c.Budget, c.Total)
		if c.Charge <= c.Total {
			possible++
		}
	}
	if possible < r.Count {
		largest := slices.MaxFunc(r.Cards, func(a, b Card) int { return cmp.Compare(a.Total, b.Total) })
		asked, remedy := human.Exact(largest.Bytes), "Request less memory"
		beside := largest.Charge - largest.Bytes
		if beside > 0 {
			asked += fmt.Sprintf(", with %s for CUDA contexts,", human.Bytes(beside))
			if beside >= largest.Total {
				remedy = "Let fewer processes use it, or lower GPUCONF_CONTEXT_MEMORY"
			}
		}
		cards := human.Count(uint64(r.Count), "card")
		most := largest.Total
		if beside < most {
			most -= beside
		}
		why := fmt.Sprintf("at most %s of a card", human.Exact(most))
		if r.Count > 1 {
			cards = "each of " + cards
		}
		if possible > 0 {
			why = fmt.Sprintf("only %d of the %d cards can hold that", possible, len(r.Cards))
		}
		return status.Errorf(status.InvalidArgument, "%s on %s can never be leased: %s. %s", asked, cards, why,
			remedy)
	}
	r.Text = Text{Clean(r.Text.Name, NameBytes), Clean(r.Text.Job, JobBytes), Clean(r.Text.Command, CommandText)}
	return nil
}

// Look looks whether the claim is granted. If it is not, it is worth looking again after the nap. cards, unless nil,
// replaces what was said of the candidates: their use by others changes.
func (c *Claim) Look(cards []Card) (granted bool, nap Nap, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return false, nap, errReleased()
	}
	if c.record.entry.kind == kindParked {
		return false, nap, errParked()
	}
	if c.record.state == stateGranted {
		return true, nap, nil
	}
	if cards != nil {
		if err := c.replaceCardsLocked(cards); err != nil {
			return false, nap, err
		}
	}
	nap = c.ledger.nap(c.record.word, longestLook)
	granted, ahead, err := c.tryLocked(cards != nil)
	nap.Most = min(nap.Most, lookAgain(ahead))
	return granted, nap, err
}

// lookAgain returns how long a waiter sleeps at most: a killed process wakes no waiter. The first one looks often, and
// wakes the others if it is their turn; those look in case the first one is killed or stopped.
func lookAgain(ahead int) time.Duration {
	return min(100*time.Millisecond*time.Duration(1+ahead), longestLook)
}

func (c *Claim) replaceCardsLocked(cards []Card) error {
	request := Request{Cards: cards, Count: int(c.record.count), Policy: c.record.policy, Text: c.record.text}
	if err := c.ledger.checkRequest(&request); err != nil {
		return err
	}
	c.record.cards = request.Cards
	return nil
}

// tryLocked looks whether it is the claim's turn, and returns how many wait before it. changed: the record differs from
// what is stored.
func (c *Claim) tryLocked(changed bool) (granted bool, ahead int, err error) {
	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return false, 0, err
	}
	c.record.entry.looked = now()
	if err := l.writeEntry(c.held, c.record.entry); err != nil {
		return false, 0, err
	}
	if !changed { // most looks end here, without the grant lock
		v, err := l.look(false)
		if err != nil {
			return false, 0, err
		}
		if taken, ahead := v.turnOf(c.held); taken == nil {
			l.wake(v, c.record.id)
			return false, ahead, nil
		}
	}
	locked, err := l.lock(l.Patience)
	if err != nil {
		return false, 0, err
	}
	defer locked.unlock()
	v, err := l.look(true)
	if err != nil {
		return false, 0, err
	}
	before := c.record
	before.cards = slices.Clone(c.record.cards)
	if granted, ahead = v.grant(c.held, &c.record); granted || changed {
		if err := l.write(c.held, &c.record); err != nil {
			c.record = before
			return false, ahead, err
		}
	}
	l.wake(v, c.record.id) // it holds other cards now, or none any more
	return granted, ahead, nil
}

// Release frees the claim's bytes at once, also if children have copies of its descriptor; those of an adopted claim
// only after all copies of its descriptor are closed. A second call does nothing.
func (c *Claim) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.released {
		c.released = true
		c.toucher.Stop()
		if c.adopted {
			closeFile(c.held.fd)
		} else {
			c.ledger.drop(c.held)
		}
		c.ledger.wakeNext()
	}
}

// ID returns the claim's identity.
func (c *Claim) ID() ID { return c.record.id }

// Cards returns the leased cards, in the order of the candidates; none while the claim waits or is parked.
func (c *Claim) Cards() []CardLease {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record.entry.kind == kindParked {
		return nil
	}
	return leasesOf(c.record.cards, true)
}

// Descriptor returns the descriptor that holds the claim. Children that inherit it keep the claim alive.
func (c *Claim) Descriptor() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return -1, errReleased()
	}
	return c.held.fd, nil
}

func errReleased() error {
	return status.Errorf(status.FailedPrecondition, "the claim was released")
}
