// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/pool/figures"
)

// CardLease is bytes of a card that a claim leases, or waits for.
type CardLease struct {
	UUID   string `py:"uuid"`   // "GPU-..." or "MIG-..."
	Bytes  uint64 `py:"bytes"`  // what the claim's programs may use on the card
	Charge uint64 `py:"charge"` // what it takes of the card: these bytes and what it reserves beside them
}

// ClaimRow is a claim of a live process, or of a child that inherited it. The texts are what the process said of
// itself.
type ClaimRow struct {
	ID      ID     `py:"id"` // 32 hexadecimal digits
	Process        // the one that made the claim
	UID     uint32 `py:"uid"` // reliable, unlike the texts
	Text           // what the process said of itself
	State   State  `py:"state"` // "granted", "waiting" or "parked"
	// It waits and has not looked for seconds, because its process is stopped or frozen; others pass it.
	Stopped bool `py:"stopped"`
	// The leased cards; of a waiting claim, all that it may get, of which it needs count; of a parked one, those that
	// it had.
	Cards    []CardLease   `py:"cards"`
	Count    int           `py:"count"` // the number of cards that it needs
	Later                  // what versions after 3 added
	Ticket   uint64        `py:"ticket"`    // the order of the requests
	Seconds  float64       `py:"seconds"`   // the time since the grant, or since the request
	Turns    bool          `py:"turns"`     // whether its program takes turns
	Keeps    string        `py:"keeps"`     // why its program keeps its memory with turns; "" if it does not
	Slice    time.Duration `py:"slice"`     // the turn that its user requested, in nanoseconds; 0: the least
	IdleTime time.Duration `py:"idle_time"` // after which its user lets it go, in nanoseconds; 0: the least
	Swaps    uint64        `py:"swaps"`     // how often its memory has left the cards and come back
	Waited   float64       `py:"waited"`    // the seconds for which it has waited to come back, in all
	Host     uint64        `py:"host"`      // bytes of the host's memory that it has reserved to be parked in
	Gone     bool          `py:"gone"`      // the process has ended, and a child holds the claim
	Holders  []int         `py:"holders"`   // of RowsWithHolders, if it is gone: the PIDs of its children, as far as /proc shows them
	Local    bool          `py:"local"`     // pid is one of this PID namespace, not of another container's
}

// PoolFigures are the figures of a memory pool, exact while the pool is idle.
type PoolFigures struct {
	UUID     string `py:"uuid"`     // of its card
	Number   int    `py:"number"`   // N of its name GPU:N
	Limit    uint64 `py:"limit"`    // the hard limit
	Reserved uint64 `py:"reserved"` // what it has taken from the card
	InUse    uint64 `py:"in_use"`   // the total size of live blocks
	Peak     uint64 `py:"peak"`     // the maximum of in_use
	// In use by library, "c", "gpuconf", "torch", "cupy" and "numba"; those that use none are left out.
	Libraries map[string]uint64 `py:"libraries"`
}

// ProcessRow is a live process that publishes the figures of its pools. The texts are what it said of itself.
type ProcessRow struct {
	Process               // the process itself
	UID     uint32        `py:"uid"` // reliable, unlike the texts
	Text                  // what it said of itself
	Claim   ID            `py:"claim_id"` // the claim that it runs under, or ""
	Pools   []PoolFigures `py:"pools"`    // one for each logical GPU
	Gone    bool          `py:"gone"`     // the process has ended, and a child keeps its slot
	Local   bool          `py:"local"`    // pid is one of this PID namespace, not of another container's
}

// Rows returns all live claims, by ticket, and processes. It takes no lock, so no other process can delay it.
func (l *Ledger) Rows() (claims []ClaimRow, processes []ProcessRow, err error) { return l.rows(false) }

// RowsWithHolders returns the same with the holders of claims whose process is gone. It reads /proc of all processes.
func (l *Ledger) RowsWithHolders() (claims []ClaimRow, processes []ProcessRow, err error) {
	return l.rows(true)
}

func (l *Ledger) rows(withHolders bool) (claims []ClaimRow, processes []ProcessRow, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, nil, err
	}
	v, err := l.lookAll()
	if err != nil {
		return nil, nil, err
	}
	for _, s := range append(v.claims(), v.parked()...) {
		row := l.claimRow(s)
		if row.Gone && withHolders {
			row.Holders = s.holders()
		}
		claims = append(claims, row)
	}
	for i := range v.slots {
		s := &v.slots[i]
		if s.kind != kindProcess {
			continue
		}
		row, err := l.processRow(s)
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
	row := ClaimRow{ID: s.id, Process: s.process, UID: s.file.stat.Uid, Text: s.text, State: Waiting,
		Stopped: s.stopped, Count: int(s.count), Ticket: s.ticket,
		Later: s.Later, Turns: s.Turns.Phase != NoTurns, Keeps: s.Turns.Unfit,
		Slice: s.Turns.Slice, IdleTime: s.Turns.IdleTime, Swaps: s.Turns.Swaps, Waited: s.Turns.Waited.Seconds(),
		Seconds: max(0, float64(int64(now()-s.since))/1e9)}
	row.Local, row.Gone = l.whereabouts(s.process)
	if row.Cards = leasesOf(s.cards, false); s.isLease() {
		row.State, row.Cards = Granted, leasesOf(s.cards, true)
	}
	if s.isParked() {
		row.State = Parked
	}
	if host := s.host(); host != nil {
		row.Count--
		row.Host = host.Charge
	}
	return row
}

// leasesOf returns what others see of a claim's cards, or of the leased ones only, without the host's memory.
func leasesOf(cards []Card, leased bool) (leases []CardLease) {
	for _, c := range cards {
		if (c.Leased || !leased) && !isHost(c) {
			leases = append(leases, CardLease{UUID: c.UUID, Bytes: c.Bytes, Charge: c.Charge})
		}
	}
	return leases
}

// whereabouts reports whether a PID means something here, and whether its process has ended.
func (l *Ledger) whereabouts(p Process) (local, gone bool) {
	local = p.Namespace == l.self.Namespace
	return local, local && p.IsGone()
}

// holders returns the processes that have the open file with a slot's lock, as far as /proc shows this user's. The list
// of all locks names no process: a child has the file of the process that started it.
func (s *slotView) holders() (pids []int) {
	lock := fmt.Sprintf(" %s %d ", lockedFile(&s.file.stat), slotAt(s.slot))
	files, _ := filepath.Glob("/proc/[0-9]*/fdinfo/*")
	for _, name := range files {
		text, _ := os.ReadFile(name)
		pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
		if strings.Contains(string(text), lock) && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
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
		var now figures.Pool // a copy of that moment
		if _, err := binary.Decode(data[i*figures.Bytes:], order, &now); err != nil {
			return row, err // not possible: there are bytes for MostPools
		}
		row.Pools = append(row.Pools, PoolFigures{UUID: pool.UUID, Number: pool.Number, Limit: now.Limit,
			Reserved: now.Reserved, InUse: now.InUse(), Peak: now.Peak, Libraries: librariesOf(&now)})
	}
	return row, nil
}

// librariesOf returns the bytes in use by the names of libraries, without those that use none.
func librariesOf(pool *figures.Pool) map[string]uint64 {
	named := map[string]uint64{}
	for library, bytes := range pool.Libraries {
		if name := holder.Library(library).String(); name != "" && bytes > 0 {
			named[name] = bytes
		}
	}
	return named
}
