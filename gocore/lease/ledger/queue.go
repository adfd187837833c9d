// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"
)

// The order of grants, decided on plain numbers.
//
// Requests are served in the order of their tickets. One that does not fit holds the cards on which least is missing,
// as many as it needs, and a younger one gets only what is left then (invariants 5 and 6). One that fits, but has not
// taken its cards yet, holds those, and the next one of its class waits for it.

// decide returns for each waiting request, in the order of tickets, the indices of the cards that it gets now, in the
// order of its cards; nil if it must wait. leased is what live leases take of each card.
func decide(leased map[string]uint64, waiting []*record) (choices [][]int) {
	charged := map[string]uint64{}
	for uuid, bytes := range leased {
		charged[uuid] = bytes
	}
	for n, r := range waiting {
		chosen, fits := choose(charged, r)
		for _, i := range chosen {
			charged[r.cards[i].UUID] = min(charged[r.cards[i].UUID]+r.cards[i].Charge, mostBytes)
		}
		if !fits || slices.ContainsFunc(waiting[:n], r.isSameClass) {
			chosen = nil
		}
		slices.Sort(chosen)
		choices = append(choices, chosen)
	}
	return choices
}

// choose returns the cards that a request takes if it fits, else those that it holds.
func choose(held map[string]uint64, r *record) (order []int, fits bool) {
	room := func(i int) int64 { // that would be left; negative: what is missing
		c := &r.cards[i]
		return int64(c.Budget) - int64(held[c.UUID]) - int64(c.Charge)
	}
	fitting := 0
	for i := range r.cards {
		order = append(order, i)
		if room(i) >= 0 {
			fitting++
		}
	}
	fits = fitting >= int(r.count)
	slices.SortStableFunc(order, func(a, b int) int {
		ra, rb := room(a), room(b)
		if fits && r.policy == Pack && ra >= 0 && rb >= 0 {
			return cmp.Compare(ra, rb)
		}
		return cmp.Compare(rb, ra)
	})
	return order[:r.count], fits
}

// leases sums what the granted claims take of each card, and returns the waiting ones that are not stopped.
func leases(claims []*slotView) (leased map[string]uint64, waiting []*record) {
	leased = map[string]uint64{}
	for _, s := range claims {
		if s.state == stateWaiting && !s.stopped && !s.newer {
			waiting = append(waiting, &s.record)
		}
		for _, c := range s.cards {
			if c.Leased {
				leased[c.UUID] = min(leased[c.UUID]+c.Charge, mostBytes)
			}
		}
	}
	return leased, waiting
}

// isSameClass reports whether two requests are for the same bytes of the same cards.
func (r *record) isSameClass(other *record) bool {
	if r.count != other.count || len(r.cards) != len(other.cards) {
		return false
	}
	for i := range r.cards {
		isSame := func(c Card) bool { return c.UUID == r.cards[i].UUID && c.Charge == r.cards[i].Charge }
		if !isSame(other.cards[i]) && !slices.ContainsFunc(other.cards, isSame) {
			return false
		}
	}
	return true
}
