// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"gpuconf/gocore/lease/ledger"
)

// SceneOf returns what there is now, by a ledger. IDs are those of claims.
func SceneOf(l *ledger.Ledger, host ledger.Host) (scene Scene, err error) {
	members, room, err := l.Members(host)
	if err != nil {
		return scene, err
	}
	scene.Host = room
	for _, m := range members {
		if m.State == ledger.Waiting {
			scene.Waiters = append(scene.Waiters, Waiter{ID: m.ID.String(), Wanted: m.Wanted})
			continue
		}
		t := m.Turns
		p := Program{ID: m.ID.String(), Cards: m.Cards, Unfit: t.Unfit, Leaving: t.Phase == ledger.Leaves,
			Coming: t.Phase == ledger.Comes, Began: m.Since, IsIdle: t.IdleSince > 0, IdleSince: t.IdleSince,
			Out: t.Out, In: t.In, Slice: t.Slice, IdleTime: t.IdleTime, Saved: t.Saved}
		if m.Lent > 0 && t.Unfit == "" {
			for _, card := range m.Cards {
				card.Charge = min(card.Charge, m.Lent)
				p.Lent = append(p.Lent, card)
			}
		}
		if t.Phase == ledger.NoTurns {
			p.Unfit = "it does not take turns"
		}
		scene.Programs = append(scene.Programs, p)
	}
	return scene, nil
}
