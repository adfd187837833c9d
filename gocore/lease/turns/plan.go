// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"cmp"
	"slices"
	"time"

	"gpuconf/gocore/lease/ledger"
)

// What a turn lasts at least, and what it has to be of the time that a swap takes: then at most a tenth goes to swaps.
const (
	LeastSlice    = 60 * time.Second
	turnsOfASwap  = 10
	idleOfASwap   = 2
	leastIdleTime = 10 * time.Second
)

// Program is one that has memory of cards. Times are those of one clock, whichever it is.
type Program struct {
	ID    string        // by which plans name it
	Cards []ledger.Card // what it leases
	Lent  []ledger.Card // what of it was lent, and is returned as soon as it is needed

	Unfit   string // why it is never parked; "" if it can be
	Leaving bool   // its memory is on its way to the host
	Coming  bool   // its memory is on its way back, or its turn has not begun

	Began     time.Duration // when its turn began
	IsIdle    bool          // whether it calls the driver no more
	IdleSince time.Duration // since when, of an idle program

	Out, In  time.Duration // how long it takes to save its memory, and to bring it back
	Slice    time.Duration // the turn that its user requested; 0: the least
	IdleTime time.Duration // after which its user lets it go; 0: the least
	Saved    uint64        // what it needs of the host's memory
}

func (p *Program) swap() time.Duration { return p.Out + p.In }

// Turn returns how long a turn is that nothing ends early.
func (p *Program) Turn() time.Duration {
	return max(p.Slice, LeastSlice, turnsOfASwap*p.swap())
}

// Leaves returns from when on it may leave for another one: at the end of its turn; if it is idle before, as soon as
// its turn has paid for the swap.
func (p *Program) Leaves() time.Duration {
	end := p.Began + p.Turn()
	if !p.IsIdle {
		return end
	}
	idle := p.IdleSince + max(p.IdleTime, leastIdleTime, idleOfASwap*p.swap())
	return min(end, max(idle, p.Began+turnsOfASwap*p.swap()))
}

// Waiter is a claim that waits.
type Waiter struct {
	ID            string // by which plans name it
	ledger.Wanted        // what it waits for
}

// Scene is what there is at one time.
type Scene struct {
	Programs []Program // all that have memory of cards
	Waiters  []Waiter  // in the order of their tickets
	Host     uint64    // how much of the host's memory can still be reserved
}

// Plan is how a waiter gets its cards.
type Plan struct {
	Waiter  string        `py:"waiter"`  // its ID
	Gets    bool          `py:"gets"`    // whether it gets its cards: once they have left, or at once
	Repay   []string      `py:"repay"`   // who returns for it what was lent, now
	Leave   []string      `py:"leave"`   // who leaves for it, all at one time
	When    time.Duration `py:"when"`    // when they leave
	Blocked []string      `py:"blocked"` // who could have left, and cannot be parked, or for whom the host has no room
}

// Plans returns a plan for each waiter.
func (s *Scene) Plans() (plans []Plan) {
	leased, host := map[string]uint64{}, s.Host
	var can, cannot, repay []*Program
	for i := range s.Programs {
		p := &s.Programs[i]
		if !p.Leaving {
			take(leased, p.Cards)
		}
		if len(p.Lent) > 0 && !p.Leaving && !p.Coming {
			repay = append(repay, &Program{ID: p.ID, Cards: p.Lent})
		}
		if p.Unfit != "" {
			cannot = append(cannot, p)
		} else if !p.Leaving && !p.Coming {
			can = append(can, p)
		}
	}
	slices.SortStableFunc(can, func(a, b *Program) int {
		return cmp.Or(cmp.Compare(a.Leaves(), b.Leaves()), cmp.Compare(a.Began, b.Began), cmp.Compare(a.ID, b.ID))
	})
	can = append(repay, can...)
	var before []ledger.Wanted // who waits before and gets nothing
	for i := range s.Waiters {
		w := &s.Waiters[i]
		queue := append(slices.Clone(before), w.Wanted)
		chosen, cards, blocked := choose(leased, queue, can, cannot, host)
		plan := Plan{Waiter: w.ID, Gets: cards != nil, Blocked: blocked}
		for _, p := range chosen {
			if slices.Contains(repay, p) {
				plan.Repay = append(plan.Repay, p.ID)
			} else {
				plan.Leave, plan.When = append(plan.Leave, p.ID), p.Leaves() // the last one is the latest
			}
			give(leased, p.Cards)
			host -= p.Saved
		}
		plans = append(plans, plan)
		if cards == nil {
			before = append(before, w.Wanted)
			continue
		}
		for _, card := range cards {
			take(leased, w.Cards[card:card+1])
		}
		can = slices.DeleteFunc(can, func(p *Program) bool { return slices.Contains(chosen, p) })
	}
	return plans
}

// choose returns the programs that leave for the last waiter of a queue, and the cards that it gets then; without
// cards, who stands in its way.
func choose(leased map[string]uint64, queue []ledger.Wanted, can, cannot []*Program, host uint64) (chosen []*Program,
	cards []int, blocked []string) {
	w := queue[len(queue)-1]
	without := func(programs []*Program) []int {
		left := map[string]uint64{}
		for card, bytes := range leased {
			left[card] = bytes
		}
		for _, p := range programs {
			give(left, p.Cards)
		}
		return ledger.Decide(left, queue)[len(queue)-1]
	}
	cards = without(nil)
	for _, p := range can {
		switch {
		case cards != nil || !helps(p, w):
		case p.Saved > host:
			blocked = append(blocked, p.ID)
		default:
			chosen, host = append(chosen, p), host-p.Saved
			cards = without(chosen)
		}
	}
	if cards == nil {
		for _, p := range cannot {
			if helps(p, w) {
				blocked = append(blocked, p.ID)
			}
		}
		return nil, nil, blocked
	}
	for i := len(chosen) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(chosen), i, i+1)
		if got := without(fewer); got != nil {
			chosen, cards = fewer, got
		}
	}
	return chosen, cards, nil
}

// helps reports whether a program has memory of a card that a waiter may get.
func helps(p *Program, w ledger.Wanted) bool {
	return slices.ContainsFunc(p.Cards, func(c ledger.Card) bool {
		return slices.ContainsFunc(w.Cards, func(wanted ledger.Card) bool { return wanted.UUID == c.UUID })
	})
}

func take(leased map[string]uint64, cards []ledger.Card) {
	for _, c := range cards {
		leased[c.UUID] += c.Charge
	}
}

func give(leased map[string]uint64, cards []ledger.Card) {
	for _, c := range cards {
		leased[c.UUID] -= min(leased[c.UUID], c.Charge)
	}
}
