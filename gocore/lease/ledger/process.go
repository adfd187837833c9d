// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/figures"
)

// Process is the identity of a process. A later process with the same PID has another start time.
type Process struct {
	PID int `py:"pid"` // in its PID namespace
	// When the process started, in clock ticks since boot: field 22 of /proc/PID/stat, without the shift of a time
	// namespace; 0 if unknown.
	Start     uint64 `py:"start_time"`
	Namespace uint64 `py:"-"` // the inode number of its PID namespace; 0 if unknown
}

// Self returns this process.
func Self() Process {
	p := Process{PID: os.Getpid(), Namespace: ownNamespace()}
	p.Start, _ = startOf("self")
	return p
}

// OwnCommand returns this process's command line.
func OwnCommand() string {
	text, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		return ""
	}
	return Clean(string(bytes.TrimRight(bytes.ReplaceAll(text, []byte{0}, []byte{' '}), " ")), CommandText)
}

func ownNamespace() uint64 {
	var stat unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &stat) != nil {
		return 0
	}
	return stat.Ino
}

// startOf returns a process's start time.
func startOf(pid string) (start uint64, ok bool) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name in parentheses may contain anything
	if len(fields) < 20 {
		return 0, false
	}
	ticks, err := strconv.ParseInt(string(fields[19]), 10, 64)
	return uint64(ticks - ticksPerSecond*bootOffset()), err == nil
}

// IsGone reports whether a process of this PID namespace has ended.
func (p Process) IsGone() bool {
	if errors.Is(unix.Kill(p.PID, 0), unix.ESRCH) {
		return true
	}
	start, ok := startOf(fmt.Sprint(p.PID))
	// With another start time, it is another process with the same PID. If the start time cannot be read, the process
	// belongs to another user.
	return ok && p.Start != 0 && start != p.Start
}

// now is the time since boot in nanoseconds. Setting the clock does not change it, and it is the same in all processes,
// also of other time namespaces.
func now() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // cannot fail: the clock exists
	return uint64(ts.Nano() - 1e9*bootOffset())
}

// bootOffset is by how many seconds this process's time namespace shifts the time since boot, also in the start times
// of /proc.
var bootOffset = sync.OnceValue(func() (seconds int64) {
	text, _ := os.ReadFile("/proc/self/timens_offsets") // none: the kernel has no time namespaces
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "boottime %d", &seconds); err == nil {
			return seconds
		}
	}
	return 0
})

const ticksPerSecond = 100 // of the times in /proc, on every architecture

// Publication is this process's slot, with the live figures of its pools.
type Publication struct {
	ledger *Ledger

	mu     sync.Mutex
	held   holding // guarded by mu, as are all fields below
	memory mapping
	record record
	ended  bool
}

// Publish takes a slot for this process. claim, unless zero, is the claim that it runs under.
func (l *Ledger) Publish(claim ID, text Text) (*Publication, error) {
	p := &Publication{ledger: l, record: record{kind: kindProcess, id: claim, process: l.self, since: now(),
		text: Text{Clean(text.Name, NameBytes), Clean(text.Job, JobBytes), Clean(text.Command, CommandText)}}}
	if err := l.enter(p.enter); err != nil {
		return nil, err
	}
	return p, nil
}

// enter maps the slot and writes its record. The mapping is of another open file: it must not keep the lock alive.
func (p *Publication) enter(_ *view, held holding) error {
	p.held = held
	l := p.ledger
	fd, err := openAt(l.dir, p.held.file.name, unix.O_RDWR, 0)
	if err != nil {
		return l.problem(err, p.held.file.name, "cannot open")
	}
	defer closeFile(fd)
	if err := l.isSame(fd, p.held.file); err != nil {
		return err
	}
	if p.memory, err = mapFile(fd, fileBytes, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return l.problem(err, p.held.file.name, "cannot map")
	}
	clear(p.pools())
	if err := l.write(p.held, &p.record); err != nil {
		p.memory.unmap()
		return err
	}
	return nil
}

func (p *Publication) pools() []figures.Pool {
	return p.memory.pools(slotAt(p.held.slot)+figuresAt, MostPools)
}

// SetPools names the pools whose figures are published, in place of earlier ones, and returns where each is to be
// written. The earlier places must not be written any more. Pools beyond MostPools are left out: their places are nil.
func (p *Publication) SetPools(pools []figures.Place) ([]*figures.Pool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, status.Errorf(status.FailedPrecondition, "the process's figures are no longer published")
	}
	places, words := make([]*figures.Pool, len(pools)), p.pools()
	clear(words)
	p.record.pools = nil
	for i, pool := range pools[:min(len(pools), MostPools)] {
		if !isUUID(pool.UUID) {
			return nil, status.Errorf(status.InvalidArgument, "a card's UUID is invalid: %q", pool.UUID)
		}
		p.record.pools, places[i] = append(p.record.pools, pool), &words[i]
	}
	return places, p.ledger.write(p.held, &p.record)
}

// Ledger returns the ledger of the slot.
func (p *Publication) Ledger() *Ledger { return p.ledger }

// Descriptor returns the descriptor that holds the slot, which a forked child must close.
func (p *Publication) Descriptor() int { return p.held.fd }

// End frees the slot. No figure may be written any more. A second call does nothing.
func (p *Publication) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended = true
		p.ledger.drop(p.held)
		p.memory.unmap()
	}
}

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
