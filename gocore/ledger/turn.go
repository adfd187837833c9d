// SPDX-License-Identifier: Apache-2.0

package ledger

import "slices"

// Whose turn it is.

// put puts a claim's record into the view, in place of what its slot said.
func (v *view) put(r *record) {
	for i := range v.slots {
		if v.slots[i].kind == kindClaim && v.slots[i].id == r.id {
			v.slots[i].record, v.slots[i].stopped = *r, false
			return
		}
	}
	v.slots = append(v.slots, slotView{record: *r})
}

// turnOf reports whether a waiting claim gets its cards now, and how many wait before it.
func (v *view) turnOf(r *record) (fits bool, ahead int) {
	leased, waiting := leases(v.claims())
	for i, taken := range decide(leased, waiting) {
		if waiting[i].id == r.id {
			return taken != nil, i
		}
	}
	return false, len(waiting)
}

// grant grants a waiting claim of the view its cards, if it is its turn. The caller holds the grant lock, and writes the record then.
func (v *view) grant(r *record) bool {
	leased, waiting := leases(v.claims())
	for i, taken := range decide(leased, waiting) {
		if waiting[i].id != r.id || taken == nil {
			continue
		}
		for _, card := range taken {
			r.cards[card].Leased = true
		}
		r.state, r.since, r.granted = stateGranted, now(), v.nextGrant()
		v.put(r)
		return true
	}
	return false
}

// wake wakes the waiting claims whose turn it is, except one.
func (l *Ledger) wake(v *view, except ID) {
	leased, waiting := leases(v.claims())
	for i, taken := range decide(leased, waiting) {
		if taken != nil && waiting[i].id != except {
			l.bell.ring(waiting[i].word)
		}
	}
}

// wakeNext wakes the waiting claims whose turn it is after a release. If the ledger cannot be read, they look by themselves.
func (l *Ledger) wakeNext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usable() != nil {
		return
	}
	if waits, err := l.isWaitedFor(); err != nil || !waits {
		return
	}
	if v, err := l.look(); err == nil {
		l.wake(v, ID{})
	}
}

// isWaitedFor reports whether the directories have a waiting claim.
func (l *Ledger) isWaitedFor() (waits bool, err error) {
	err = l.eachFile(func(_ *slotFile, entries []entry) error {
		waits = waits || slices.ContainsFunc(entries, func(e entry) bool { return e.isWaiting() || e.damaged })
		return nil
	})
	return waits, err
}
