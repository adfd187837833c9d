// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
)

// Phase is where a program that takes turns is.
type Phase uint64

// The phases. A claim whose program does not take turns has none.
const (
	NoTurns Phase = iota
	Runs          // it has its memory, or is parked
	Leaves        // its memory is on its way to the host
	Comes         // its memory is on its way back
)

// Turns is what a program that takes turns says of itself, for the plans of all (gocore/lease/turns). Times are since
// boot.
type Turns struct {
	Phase     Phase         `py:"phase"`      // where it is, by number
	IdleSince time.Duration `py:"idle_since"` // 0: it calls the driver
	Out       time.Duration `py:"out"`        // how long it takes to save its memory
	In        time.Duration `py:"in_"`        // and to bring it back
	Slice     time.Duration `py:"slice"`      // the turn that its user requested; 0: the least
	IdleTime  time.Duration `py:"idle_time"`  // after which its user lets it go; 0: the least
	Saved     uint64        `py:"saved"`      // what it needs of the host's memory, in bytes
	Swaps     uint64        `py:"swaps"`      // how often its memory has left and come back
	Waited    time.Duration `py:"waited"`     // how long it has waited to come back, in all
	Unfit     string        `py:"unfit"`      // why it is never parked; "" if it can be
}

// Now returns the time since boot, the clock of a ledger.
func Now() time.Duration { return time.Duration(now()) }

// UnfitText is the most bytes of Turns.Unfit.
const UnfitText = 256

const (
	turnsBytes  = 9 * 8
	longestTime = 24 * time.Hour // of what a program says that it takes: sums of them do not overflow
)

func (t *Turns) append(b []byte) []byte {
	for _, word := range []uint64{uint64(t.Phase), uint64(t.IdleSince), uint64(t.Out), uint64(t.In), uint64(t.Slice),
		uint64(t.IdleTime), t.Saved, t.Swaps, uint64(t.Waited)} {
		b = order.AppendUint64(b, word)
	}
	return append(b, t.Unfit...)
}

// decodeTurns reads what append wrote. Anybody may have written it.
func decodeTurns(b []byte) (t Turns) {
	var words [9]uint64
	for i := range words {
		words[i] = order.Uint64(b[8*i:])
	}
	t = Turns{Phase: Phase(words[0]), IdleSince: time.Duration(min(words[1], now())), Out: atMostADay(words[2]),
		In: atMostADay(words[3]), Slice: atMostADay(words[4]), IdleTime: atMostADay(words[5]),
		Saved: min(words[6], mostBytes), Swaps: words[7], Waited: time.Duration(min(words[8], now())),
		Unfit: Clean(string(b[turnsBytes:]), UnfitText)}
	if t.Phase > Comes {
		t.Unfit = "it takes turns as a later version of gpuconf does"
	}
	return t
}

func atMostADay(word uint64) time.Duration { return time.Duration(min(word, uint64(longestTime))) }

// Say writes what the claim's program says of its turns.
func (c *Claim) Say(t Turns) error {
	t.Unfit = Clean(t.Unfit, UnfitText)
	for _, d := range []time.Duration{t.Out, t.In, t.Slice, t.IdleTime} {
		if d < 0 || d > longestTime {
			return status.Errorf(status.InvalidArgument, "a turn has times of 0 to 24 hours, not %v", d)
		}
	}
	return c.change(func(*view) error {
		if t == c.record.Turns {
			return nil
		}
		return c.rewrite(func(r *record) { r.Turns = t })
	})
}

// Adopt returns a claim that another process made, by the descriptor of it that this process has inherited. Release
// closes the descriptor.
func (l *Ledger) Adopt(descriptor int, id ID) (*Claim, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(descriptor, &stat); err != nil {
		return nil, status.Errorf(status.InvalidArgument, "descriptor %d is not open", descriptor)
	}
	c := &Claim{ledger: l, adopted: true}
	err := l.underLock(l.lookAll, func(v *view) error {
		s := v.claimOf(id)
		if s == nil || s.file.stat.Ino != stat.Ino || s.file.stat.Dev != stat.Dev {
			return status.Errorf(status.NotFound, "descriptor %d does not hold claim %s", descriptor, id)
		}
		c.held, c.record = holding{file: s.file, fd: descriptor, slot: s.slot}, s.record
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.touch()
	return c, nil
}

// Member is a claim as the plans of all see it: the cards that it leases, or waits for.
type Member struct {
	ID     ID            // of the claim
	State  State         // Waiting or Granted
	Since  time.Duration // since boot, of the grant or the request
	Later                // what its program says, and what is lent to it
	Wanted               // its cards
}

// Members returns all claims that are not parked, in the order of their tickets, without those that wait and are
// stopped; and how many bytes of the host's memory can still be reserved.
func (l *Ledger) Members(host Host) (members []Member, room uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, 0, err
	}
	v, err := l.lookAll()
	if err != nil {
		return nil, 0, err
	}
	for _, s := range v.claims() {
		m := Member{ID: s.id, State: Waiting, Since: time.Duration(min(s.since, now())), Later: s.Later,
			Wanted: Wanted{Count: int(s.count), Policy: s.policy}}
		switch {
		case s.isLease():
			m.State = Granted
			for _, card := range s.cards {
				if card.Leased && !isHost(card) {
					m.Cards = append(m.Cards, card)
				}
			}
		case s.stopped || s.newer:
			continue
		default:
			m.Cards = s.cards
		}
		members = append(members, m)
	}
	reserved, budget := host.room(v)
	return members, budget - min(reserved, budget), nil
}

// room returns what is reserved of the host's memory, and how much can be in all.
func (h *Host) room(v *view) (reserved, budget uint64) {
	reserved, filled := v.ofHost()
	return reserved, min(h.Available+filled, h.Total)
}
