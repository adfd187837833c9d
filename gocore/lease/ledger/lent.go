// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	"gpuconf/gocore/base/status"
)

// Lent memory: a granted claim leases more of its cards than it requested, while no other claim waits for them. It
// is one claim that grows and shrinks, in one write of its record: if the process that does it is killed, the lease
// is too large, never too small. Who has borrowed sees by the plans of gocore/lease/turns that others wait, and
// returns it.

// Lend changes how many bytes of each of its cards are lent to a granted claim, and returns how many are now. To have
// more, no other claim may wait for one of the cards; it gets up to most then, as far as there is room, and nothing if
// there is none for least. With most below what it has, it returns the rest. cards, unless nil, replaces what was
// said of the cards: their use by others changes.
func (c *Claim) Lend(least, most uint64, cards []Card) (lent uint64, err error) {
	err = c.change(func(v *view) error {
		r := &c.record
		lent = r.Lent
		if r.state != stateGranted || r.entry.kind == kindParked {
			return status.Errorf(status.FailedPrecondition, "memory is lent to a claim that is granted and not parked")
		}
		target := most
		if most > r.Lent {
			target = min(most, r.Lent+v.unneeded(r, cards))
		}
		if target == r.Lent || target > r.Lent && target < least {
			return nil
		}
		changed := slices.Clone(r.cards)
		for i := range changed {
			if changed[i].Leased && !isHost(changed[i]) {
				changed[i].Bytes += target - r.Lent
				changed[i].Charge += target - r.Lent
			}
		}
		if err := c.rewrite(func(r *record) { r.cards, r.Lent = changed, target }); err != nil {
			return err
		}
		lent = target
		v.put(c.held, r)
		c.ledger.wake(v, ID{})
		return nil
	})
	return lent, err
}

// unneeded returns how many bytes are left of each card that a claim leases; 0 if another one waits for any of them.
func (v *view) unneeded(r *record, now []Card) (bytes uint64) {
	leased, waiting := leases(v.claims())
	bytes = mostBytes
	for _, c := range r.cards {
		if !c.Leased || isHost(c) {
			continue
		}
		isIt := func(other Card) bool { return other.UUID == c.UUID }
		if slices.ContainsFunc(waiting, func(w *record) bool { return slices.ContainsFunc(w.cards, isIt) }) {
			return 0
		}
		budget := c.Budget
		if i := slices.IndexFunc(now, isIt); i >= 0 {
			budget = min(now[i].Budget, c.Total)
		}
		bytes = min(bytes, budget-min(budget, leased[c.UUID]), mostBytes-c.Charge)
	}
	return bytes
}
