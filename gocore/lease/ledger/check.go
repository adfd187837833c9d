// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/human"
)

// Check returns what is wrong with the ledger, one sentence each; nothing if the invariants hold. It changes nothing.
func (l *Ledger) Check() (findings []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return []string{err.Error()}
	}
	locked, err := l.lock(patience)
	if err != nil {
		return []string{err.Error()}
	}
	defer locked.unlock()
	v, err := l.lookAll()
	if err != nil {
		return []string{err.Error()}
	}
	findings = append(v.problems, l.checkBell()...)
	for _, s := range v.slots {
		if s.entry.kind != s.kind && !s.isParked() || s.entry.state != s.state {
			findings = append(findings, fmt.Sprintf("the directory contradicts %s", l.placeOf(&s)))
		}
	}
	findings = append(findings, l.checkNames()...)
	leased := map[string]uint64{}
	findings = append(findings, l.checkClaims(v.claims(), leased)...)
	return append(findings, l.checkParked(v.parked(), leased)...)
}

// checkClaims checks invariants 1, 2 and 4, and sums the leases.
func (l *Ledger) checkClaims(claims []*slotView, leased map[string]uint64) (findings []string) {
	ids, tickets := map[ID]*slotView{}, map[uint64]*slotView{}
	var granted []*slotView
	for _, s := range claims {
		if other := ids[s.id]; other != nil {
			findings = append(findings, fmt.Sprintf("claim %s is in two slots: in %s, and in %s", s.id,
				l.placeOf(other), l.placeOf(s)))
		}
		if other := tickets[s.ticket]; other != nil {
			findings = append(findings, fmt.Sprintf("two claims have ticket %d: in %s, and in %s", s.ticket,
				l.placeOf(other), l.placeOf(s)))
		}
		if highest := now(); s.ticket > highest || s.granted > highest {
			findings = append(findings, fmt.Sprintf("ticket %d or grant %d is forged: no gpuconf counts that far (%s)",
				s.ticket, s.granted, l.placeOf(s)))
		}
		ids[s.id], tickets[s.ticket] = s, s
		if s.isLease() {
			granted = append(granted, s)
		}
	}
	slices.SortStableFunc(granted, func(a, b *slotView) int { return cmp.Compare(a.granted, b.granted) })
	for _, s := range granted {
		for _, c := range s.cards {
			if !c.Leased {
				continue
			}
			leased[c.UUID] = min(leased[c.UUID]+c.Charge, mostBytes)
			if leased[c.UUID] > c.Total {
				findings = append(findings,
					fmt.Sprintf("card %s is overcommitted: leases of %s were granted, but it has %s (claim %s of "+
						"process %d, in %s)", c.UUID,
						human.Exact(leased[c.UUID]), human.Exact(c.Total), s.id, s.process.PID, l.placeOf(s)))
			}
		}
	}
	return findings
}

// placeOf names a slot and whose it is.
func (l *Ledger) placeOf(s *slotView) string {
	return fmt.Sprintf("%s/%s, slot %d, of user %d", l.folder, s.file.name, s.slot, s.file.stat.Uid)
}

func (l *Ledger) checkBell() []string {
	var stat unix.Stat_t
	path := l.folder + "/" + wakeName
	if l.bell.fd < 0 {
		return []string{path + " cannot be opened: waiters poll instead of being woken"}
	}
	if err := unix.Fstat(l.bell.fd, &stat); err != nil || stat.Size < wordBytes || stat.Nlink == 0 {
		return []string{path + " was truncated or removed: waiters poll instead of being woken"}
	}
	return nil
}

// checkNames reports what does not belong to a ledger.
func (l *Ledger) checkNames() (findings []string) {
	names, err := l.list()
	if err != nil {
		return []string{err.Error()}
	}
	for _, name := range names {
		if name != headerName && name != wakeName && !strings.HasPrefix(name, filePrefix) &&
			!strings.HasPrefix(name, newPrefix) {
			findings = append(findings, fmt.Sprintf("%s/%s does not belong to the ledger", l.folder, Clean(name, 100)))
		}
	}
	return findings
}
