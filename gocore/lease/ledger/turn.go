// SPDX-License-Identifier: Apache-2.0

package ledger

import "slices"

// Whose turn it is.

// at returns the live slot that this process holds, or nil. It goes by the place: a forged claim may have the same ID.
func (v *view) at(held holding) *slotView {
	for i := range v.slots {
		if s := &v.slots[i]; s.slot == held.slot && s.file.stat.Ino == held.file.stat.Ino {
			return s
		}
	}
	return nil
}

// put puts a claim's record into the view, in place of what its slot said.
func (v *view) put(held holding, r *record) {
	if s := v.at(held); s != nil {
		s.record, s.stopped = *r, false
		return
	}
	v.slots = append(v.slots, slotView{file: held.file, slot: held.slot, record: *r})
}

// turnOf returns the cards that a waiting claim gets now, nil if it must wait, and how many wait before it.
func (v *view) turnOf(held holding) (taken []int, ahead int) {
	leased, waiting := leases(v.claims())
	own := v.at(held)
	for i, taken := range decide(leased, waiting) {
		if own != nil && waiting[i] == &own.record {
			return taken, i
		}
	}
	return nil, len(waiting)
}

// grant grants a waiting claim of the view its cards, if it is its turn. The caller holds the grant lock, and writes
// the record then.
func (v *view) grant(charges holding, r *record) (granted bool, ahead int) {
	v.put(charges, r)
	taken, ahead := v.turnOf(charges)
	if taken == nil {
		return false, ahead
	}
	for _, card := range taken {
		r.cards[card].Leased = true
	}
	r.state, r.since, r.granted = stateGranted, now(), v.nextGrant()
	v.put(charges, r)
	return true, ahead
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

// wakeNext wakes the waiting claims whose turn it is after a release. If the ledger cannot be read, they look by
// themselves.
func (l *Ledger) wakeNext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usable() != nil {
		return
	}
	if waits, err := l.isWaitedFor(); err != nil || !waits {
		return
	}
	if v, err := l.look(false); err == nil {
		l.wake(v, ID{})
	}
}

// isWaitedFor reports whether the directories have a waiting claim.
func (l *Ledger) isWaitedFor() (waits bool, err error) {
	err = l.eachFile(&view{}, func(_ *slotFile, entries []entry) error {
		waits = waits || slices.ContainsFunc(entries, func(e entry) bool { return e.isWaiting() || e.damaged })
		return nil
	})
	return waits, err
}
