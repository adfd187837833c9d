// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"
)

// Neighbor is another process, or another claim with its processes, on a card.
type Neighbor struct {
	PID    int    // of the process that made the claim; without a claim, of the process
	Name   string // the name of the lease or, if it has none, the command line
	Local  bool   // whether PID is in this process's PID namespace
	Leased uint64 // bytes of the card that the claim has leased; 0: without a claim
	InUse  uint64 // bytes in use in its pools on the card
}

// Neighbors returns who else leases or uses memory of a card, the largest first. The claim that this process runs
// under, and what else runs under it, is not among them.
func (p *Publication) Neighbors(uuid string) (list []Neighbor, err error) {
	l, err := Open(p.ledger.folder, false) // its own may be closed
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	claims, processes, err := l.Rows()
	if err != nil {
		return nil, err
	}
	var none ID
	of := map[ID]int{} // claim -> its place in list
	for _, c := range claims {
		if c.State != Granted || c.ID == p.record.id {
			continue
		}
		for _, card := range c.Cards {
			if card.UUID == uuid {
				of[c.ID] = len(list)
				list = append(list, Neighbor{PID: c.Process.PID, Name: cmp.Or(c.Text.Name, c.Text.Command),
					Local: c.Local, Leased: card.Bytes})
			}
		}
	}
	for _, row := range processes {
		if row.Process == p.ledger.self || row.Claim == p.record.id && row.Claim != none {
			continue
		}
		inUse := uint64(0)
		for _, pool := range row.Pools {
			if pool.UUID == uuid {
				inUse += pool.InUse
			}
		}
		if at, ok := of[row.Claim]; ok {
			list[at].InUse += inUse
		} else if inUse > 0 {
			list = append(list, Neighbor{PID: row.Process.PID, Name: cmp.Or(row.Text.Name, row.Text.Command),
				Local: row.Local, InUse: inUse})
		}
	}
	slices.SortStableFunc(list, func(a, b Neighbor) int {
		return cmp.Compare(max(b.Leased, b.InUse),
			max(a.Leased, a.InUse))
	})
	return list, nil
}
