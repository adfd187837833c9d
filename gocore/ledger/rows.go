// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"errors"

	"gpuconf/gocore/figures"
)

// ClaimRow is a live claim, as others see it.
type ClaimRow struct {
	ID       ID      // of the claim
	Process  Process // the process that made the claim
	UID      uint32  // of the slot file's owner
	Text     Text    // what it says of itself
	Granted  bool    // whether it has its cards; else it waits
	Stopped  bool    // it waits, and has not looked for seconds: its process is stopped or frozen, and others pass it
	Count    int     // the number of cards that it needs
	Contexts int     // CUDA contexts that the charge has room for on each card; 0 if the claim does not say
	Cards    []Card  // granted: the leased ones; waiting: all candidates
	Ticket   uint64  // its place in the queue: the order of requests
	Seconds  float64 // the time since the grant; while it waits, since the request
	Gone     bool    // the process has ended, and a child keeps the claim
	Local    bool    // whether the PID is in this process's PID namespace
}

// ProcessRow is a live process and its pools.
type ProcessRow struct {
	Process Process   // the process itself
	UID     uint32    // of the slot file's owner
	Claim   ID        // the claim that it runs under; zero: none
	Text    Text      // what it says of itself
	Pools   []PoolRow // one for each logical GPU
	Gone    bool      // the process has ended, and a child keeps its slot
	Local   bool      // whether the PID is in this process's PID namespace
}

// PoolRow is a pool with its live figures.
type PoolRow struct {
	figures.Place
	Figures figures.Pool // a copy, made when the ledger was read
}

// Rows returns all live claims, by ticket, and processes. It takes no lock, so no other process can delay it.
func (l *Ledger) Rows() (claims []ClaimRow, processes []ProcessRow, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, nil, err
	}
	v, err := l.lookAll()
	if err != nil {
		return nil, nil, err
	}
	for _, s := range v.claims() {
		claims = append(claims, l.claimRow(s))
	}
	for i := range v.slots {
		s := &v.slots[i]
		if s.kind != kindProcess {
			continue
		}
		row, err := l.processRow(s)
		if errors.Is(err, errVanished) {
			continue
		}
		if err != nil {
			if err = l.passOver(v, s.file.stat.Uid, err); err != nil {
				return nil, nil, err
			}
			continue
		}
		processes = append(processes, row)
	}
	return claims, processes, nil
}

func (l *Ledger) claimRow(s *slotView) ClaimRow {
	row := ClaimRow{ID: s.id, Process: s.process, UID: s.file.stat.Uid, Text: s.text, Granted: s.isLease(),
		Stopped: s.stopped, Count: int(s.count), Ticket: s.ticket,
		Contexts: int(s.contexts), Seconds: max(0, float64(int64(now()-s.since))/1e9)}
	row.Local, row.Gone = l.whereabouts(s.process)
	for _, c := range s.cards {
		if c.Leased || !row.Granted {
			row.Cards = append(row.Cards, c)
		}
	}
	return row
}

// whereabouts reports whether a PID means something here, and whether its process has ended.
func (l *Ledger) whereabouts(p Process) (local, gone bool) {
	local = p.Namespace == l.self.Namespace
	return local, local && p.IsGone()
}

func (l *Ledger) processRow(s *slotView) (ProcessRow, error) {
	row := ProcessRow{Process: s.process, UID: s.file.stat.Uid, Claim: s.id, Text: s.text}
	row.Local, row.Gone = l.whereabouts(s.process)
	data := make([]byte, MostPools*figures.Bytes)
	if err := readAt(s.file.fd, data, slotAt(s.slot)+figuresAt); err != nil {
		return row, l.problem(err, s.file.name, "cannot read")
	}
	if lives, _ := isLocked(s.file.fd, slotAt(s.slot)); !lives {
		return row, errVanished
	}
	for i, pool := range s.pools {
		p := PoolRow{Place: pool}
		if _, err := binary.Decode(data[i*figures.Bytes:], order, &p.Figures); err != nil {
			return row, err // not possible: there are bytes for MostPools
		}
		row.Pools = append(row.Pools, p)
	}
	return row, nil
}
