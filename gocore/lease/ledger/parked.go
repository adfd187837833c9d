// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
)

// A program that is parked: its memory is in the host's, and its cards are free for others.
//
//	granted --Reserve--> granted, with room of the host --Park--> parked --Return--> granted, with room of the host
//
// The kind in the directory alone says that a claim is parked, so that one write of an entry parks it and one brings it
// back. The record stays the granted claim that it was. An older reader passes over a slot of that kind, and takes
// none whose lock is held: for it, a parked program has no memory.
//
// It all happens in the slot that the program inherited. So the claim ends with the program, whatever becomes of who
// parked it, and what it has of the host's memory is counted as long as the program lives.

// HostCard is the host's memory among the cards.
const HostCard = "HOST-memory"

// Host is what the memory of the host has room for.
type Host struct {
	Total uint64 `py:"total"` // bytes
	// bytes without swapping: what programs have reserved and not yet filled is not taken off
	Available uint64 `py:"available"`
	Group     uint64 `py:"group"` // bytes that the control group of the program still lets it have
}

// Reserve reserves bytes of the host's memory for a granted claim, and reports whether there are as many.
func (c *Claim) Reserve(bytes uint64, host Host) (ok bool, err error) {
	err = c.change(func(v *view) error {
		r := &c.record
		switch {
		case r.state != stateGranted || r.entry.kind == kindParked || r.host() != nil:
			return status.Errorf(status.FailedPrecondition,
				"only a granted claim reserves memory of the host, and once")
		case len(r.cards) == MostCards:
			return status.Errorf(status.InvalidArgument, "a claim of %d cards has no place for the host's memory",
				MostCards)
		case bytes == 0 || bytes > mostBytes || host.Total > mostBytes:
			return status.Errorf(status.InvalidArgument, "%d bytes of the host's memory cannot be reserved", bytes)
		}
		reserved, budget := host.room(v)
		if ok = bytes <= host.Group && reserved <= budget && bytes <= budget-reserved; !ok {
			return nil
		}
		row := Card{UUID: HostCard, Bytes: bytes, Charge: bytes, Budget: budget, Total: host.Total, Leased: true}
		return c.rewrite(func(r *record) { r.cards, r.count = append(slices.Clone(r.cards), row), r.count+1 })
	})
	return ok && err == nil, err
}

// Unreserve gives the host's memory back. Without any it does nothing.
func (c *Claim) Unreserve() error {
	return c.change(func(*view) error {
		switch host := c.record.host(); {
		case c.record.entry.kind == kindParked:
			return errParked()
		case host == nil:
			return nil
		}
		return c.rewrite(func(r *record) {
			r.cards, r.count = slices.DeleteFunc(slices.Clone(r.cards), isHost), r.count-1
		})
	})
}

// Park frees the cards of a claim that has reserved memory of the host. The program's memory has left the cards.
func (c *Claim) Park() error {
	return c.change(func(v *view) error {
		e := c.record.entry
		if e.kind == kindParked || c.record.host() == nil {
			return status.Errorf(status.FailedPrecondition,
				"a claim is parked once, after memory of the host was reserved")
		}
		e.kind = kindParked
		if err := c.ledger.writeEntry(c.held, e); err != nil {
			return err
		}
		c.record.entry = e
		v.remove(c.held)
		c.ledger.wake(v, ID{})
		return nil
	})
}

// Return gives a parked claim the cards of another one of this process, which was granted as many bytes on as many
// cards. It has the other's place in the order of grants, and the other one is released. The host's memory stays
// reserved.
func (c *Claim) Return(other *Claim) error {
	if c == other {
		return status.Errorf(status.InvalidArgument, "a parked claim returns with the cards of another one")
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	err := c.change(func(*view) error {
		host := c.record.host()
		switch {
		case c.record.entry.kind != kindParked:
			return status.Errorf(status.FailedPrecondition, "the claim is not parked")
		case other.released || other.record.state != stateGranted || other.record.entry.kind == kindParked:
			return status.Errorf(status.FailedPrecondition, "a parked claim returns with cards that were granted")
		case other.ledger != c.ledger || other.record.host() != nil || len(other.record.cards) == MostCards:
			return status.Errorf(status.InvalidArgument, "a parked claim returns with cards of its ledger alone")
		case !slices.Equal(bytesOf(c.record.cards), bytesOf(other.record.cards)):
			return status.Errorf(status.InvalidArgument, "a parked claim returns with as many bytes as it had")
		}
		before := c.record
		r := other.record
		c.record.cards = append(slices.Clone(r.cards), *host)
		c.record.count, c.record.since, c.record.ticket, c.record.granted = r.count+1, r.since, r.ticket, r.granted
		if err := c.ledger.write(c.held, &c.record); err != nil {
			c.record = before
			return err
		}
		c.ledger.drop(other.held)
		return nil
	})
	if err == nil {
		other.released = true
		other.toucher.Stop()
	}
	return err
}

// change runs a change of a claim under the grant lock, with the live claims and parked programs.
func (c *Claim) change(do func(v *view) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return errReleased()
	}
	return c.ledger.underLock(c.ledger.lookAll, func(v *view) error {
		s := v.claimOf(c.record.id)
		if s == nil {
			return status.Errorf(status.FailedPrecondition, "the ledger no longer has this claim")
		}
		c.record = s.record // which another process that has the claim may have changed
		return do(v)
	})
}

// claimOf returns a claim by its ID, or nil.
func (v *view) claimOf(id ID) *slotView {
	for i := range v.slots {
		if v.slots[i].id == id && v.slots[i].kind == kindClaim {
			return &v.slots[i]
		}
	}
	return nil
}

// rewrite stores a changed record of a claim, which stays parked if it is; after an error it is as it was.
func (c *Claim) rewrite(change func(r *record)) error {
	before := c.record
	change(&c.record)
	err := writeAt(c.held.fd, c.record.encode(), slotAt(c.held.slot))
	if err == nil {
		e := entryOf(&c.record)
		e.kind = before.entry.kind
		if err = c.ledger.writeEntry(c.held, e); err == nil {
			c.record.entry = e
			return nil
		}
	}
	c.record = before
	return c.ledger.problem(err, c.held.file.name, "cannot write")
}

func isHost(c Card) bool { return c.UUID == HostCard }

// host returns what the claim has of the host's memory, or nil.
func (r *record) host() *Card {
	if i := slices.IndexFunc(r.cards, isHost); i >= 0 {
		return &r.cards[i]
	}
	return nil
}

// bytesOf returns the charges of the leased cards, in ascending order: a program may return to other cards.
func bytesOf(cards []Card) (charges []uint64) {
	for _, c := range cards {
		if c.Leased && !isHost(c) {
			charges = append(charges, c.Charge)
		}
	}
	slices.SortFunc(charges, cmp.Compare[uint64])
	return charges
}

// isParked goes by the directory: the record is that of the granted claim.
func (s *slotView) isParked() bool { return s.entry.kind == kindParked && s.kind == kindClaim }

// parked returns the parked programs of a view of everything.
func (v *view) parked() (parked []*slotView) {
	for i := range v.slots {
		if v.slots[i].isParked() {
			parked = append(parked, &v.slots[i])
		}
	}
	return parked
}

// ofHost sums what is reserved of the host's memory, and how much of that parked programs have filled.
func (v *view) ofHost() (reserved, filled uint64) {
	for i := range v.slots {
		host := v.slots[i].host()
		if host == nil || !host.Leased {
			continue
		}
		reserved = min(reserved+host.Charge, mostBytes)
		if v.slots[i].isParked() {
			filled = min(filled+host.Charge, mostBytes)
		}
	}
	return reserved, filled
}

// remove takes a slot that this process holds out of a view.
func (v *view) remove(held holding) {
	v.slots = slices.DeleteFunc(v.slots, func(s slotView) bool {
		return s.slot == held.slot && s.file.stat.Ino == held.file.stat.Ino
	})
}

// checkParked checks invariant 12, and what parked programs have of the host for invariant 1.
func (l *Ledger) checkParked(parked []*slotView, leased map[string]uint64) (findings []string) {
	for _, s := range parked {
		host := s.host()
		if host == nil || !host.Leased {
			findings = append(findings, "a parked program has reserved nothing of the host's memory: "+l.placeOf(s))
			continue
		}
		leased[HostCard] = min(leased[HostCard]+host.Charge, mostBytes)
		if leased[HostCard] > host.Total {
			findings = append(findings, "the host's memory is overcommitted: "+human.Exact(leased[HostCard])+
				" are reserved, but it has "+human.Exact(host.Total)+": "+l.placeOf(s))
		}
		if held := bytesOf(s.cards); sum(held) == 0 {
			findings = append(findings, "a parked program had no card: "+l.placeOf(s))
		}
	}
	return findings
}

func sum(numbers []uint64) (total uint64) {
	for _, n := range numbers {
		total += n
	}
	return total
}

func errParked() error {
	return status.Errorf(status.FailedPrecondition, "the claim is parked")
}
