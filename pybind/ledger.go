// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"errors"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/lease/turns"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// LedgerInit makes a ledger for several users of a folder. group, unless it is negative, is the only group that may use
// it.
func (calls) LedgerInit(folder string, group int64) error {
	return ledger.InitShared(folder, int(group))
}

// LedgerOpen opens the ledger of a folder and returns its number. With create, it makes a private one if there is none.
func (calls) LedgerOpen(folder string, create bool) (id int64, err error) {
	return process.OpenLedger(folder, create)
}

// LedgerMayMake raises the reason why a folder cannot become a private ledger. It changes nothing.
func (calls) LedgerMayMake(folder string) error { return ledger.MayMake(folder) }

// LedgerLost returns sentences about the leases of this user that the ledger of a folder no longer has, or that older
// ledgers have.
func (calls) LedgerLost(folder string) (sentences []string, err error) {
	return ledger.Lost(folder), nil
}

// LedgerClose closes a ledger. Claims and published figures stay.
func (calls) LedgerClose(id int64) error { return process.CloseLedger(id) }

// LedgerIsShared reports whether several users may use a ledger.
func (calls) LedgerIsShared(l *ledger.Ledger) (shared bool, err error) { return l.Shared, nil }

// LedgerWords returns the address of the words on which C's nap() sleeps. It is valid until the ledger is closed; 0:
// there are none.
func (calls) LedgerWords(l *ledger.Ledger) (address uintptr, err error) { return l.Words(), nil }

// napOf returns a nap as C's nap() takes it.
func napOf(nap ledger.Nap) *wire.Nap {
	return &wire.Nap{Word: nap.Word, Was: nap.Was, Milliseconds: min(max(nap.Most.Milliseconds(), 1), 1000),
		Deaf: nap.Deaf}
}

// orNap turns the error of a ledger whose lock another process holds into process.Busy, unless it is the caller's last
// try.
func orNap(last bool, err error) error {
	var busy *ledger.Busy
	if last || !errors.As(err, &busy) {
		return err
	}
	nap, err := wire.Encode(napOf(busy.Nap))
	if err != nil {
		return err
	}
	return &process.Busy{Nap: nap}
}

// LedgerClaim enters a request and returns the claim's number, which LedgerRelease frees. If another process holds the
// ledger's lock, the error is process.Busy, unless last is set.
func (calls) LedgerClaim(l *ledger.Ledger, request ledger.Request, last bool) (claim int64, err error) {
	c, err := l.Claim(request)
	if err != nil {
		return 0, orNap(last, err)
	}
	return process.PutClaim(c), nil
}

// LedgerLook looks whether a claim is granted, and returns nil then, else the nap to take before the next look. cards,
// unless there are none, replaces what was said of the candidates. For last see LedgerClaim.
func (calls) LedgerLook(c *ledger.Claim, cards []ledger.Card, last bool) (*wire.Nap, error) {
	granted, nap, err := c.Look(cards)
	if err != nil || granted {
		return nil, orNap(last, err)
	}
	return napOf(nap), nil
}

// LedgerGrant returns the state of a claim.
func (calls) LedgerGrant(c *ledger.Claim) (wire.Grant, error) {
	descriptor, err := c.Descriptor()
	return wire.Grant{ID: c.ID(), Cards: c.Cards(), Descriptor: descriptor}, err
}

// LedgerAdopt returns the number of a claim that another process made, by its inherited descriptor. For last see
// LedgerClaim, as for the calls below.
func (calls) LedgerAdopt(l *ledger.Ledger, descriptor int64, of string, last bool) (claim int64, err error) {
	id, ok := ledger.ParseID(of)
	if !ok {
		return 0, status.Errorf(status.InvalidArgument, "a claim's ID has 32 hexadecimal digits; got %q", of)
	}
	c, err := l.Adopt(int(descriptor), id)
	if err != nil {
		return 0, orNap(last, err)
	}
	return process.PutClaim(c), nil
}

// LedgerSay writes what the program of a claim says of its turns.
func (calls) LedgerSay(c *ledger.Claim, said ledger.Turns, last bool) error {
	return orNap(last, c.Say(said))
}

// LedgerLend lends a claim bytes of each of its cards beyond those that it requested, or takes them back, and returns
// how many it has then. cards, unless there are none, replaces what was said of its cards.
func (calls) LedgerLend(c *ledger.Claim, least, most int64, cards []ledger.Card, last bool) (lent int64, err error) {
	bytes, err := c.Lend(uint64(least), uint64(most), cards)
	return int64(bytes), orNap(last, err)
}

// LedgerReserve reserves memory of the host for a claim, and reports whether there is as much.
func (calls) LedgerReserve(c *ledger.Claim, bytes int64, host ledger.Host, last bool) (ok bool, err error) {
	ok, err = c.Reserve(uint64(bytes), host)
	return ok, orNap(last, err)
}

// LedgerUnreserve gives the host's memory back.
func (calls) LedgerUnreserve(c *ledger.Claim, last bool) error { return orNap(last, c.Unreserve()) }

// LedgerPark frees the cards of a claim whose program's memory has left them.
func (calls) LedgerPark(c *ledger.Claim, last bool) error { return orNap(last, c.Park()) }

// LedgerReturn gives a parked claim the cards of another one, which ends with it.
func (calls) LedgerReturn(c *ledger.Claim, granted int64, last bool) error {
	other, err := process.FindClaim(granted)
	if err != nil {
		return err
	}
	return orNap(last, c.Return(other))
}

// LedgerPlans returns how each claim that waits gets its cards, and the time since boot in nanoseconds.
func (calls) LedgerPlans(l *ledger.Ledger, host ledger.Host) (plans wire.TurnPlans, err error) {
	scene, err := turns.SceneOf(l, host)
	if err != nil {
		return plans, err
	}
	return wire.TurnPlans{Now: ledger.Now(), Plans: scene.Plans()}, nil
}

// LedgerRelease releases a claim.
func (calls) LedgerRelease(claim int64) error { return process.ReleaseClaim(claim) }

// LedgerRows returns the claims and the processes that are alive, with the children that hold a claim if requested.
func (calls) LedgerRows(l *ledger.Ledger, holders bool) (rows wire.LedgerRows, err error) {
	read := l.Rows
	if holders {
		read = l.RowsWithHolders
	}
	rows.Claims, rows.Processes, err = read()
	return rows, err
}

// LedgerCheck returns sentences about what is wrong with a ledger.
func (calls) LedgerCheck(l *ledger.Ledger) (sentences []string, err error) { return l.Check(), nil }

// LedgerPublish publishes the figures of this process's pools in a ledger, as a process of a claim ("" for none), and
// returns the descriptor that a forked child must close. For last see LedgerClaim.
func (calls) LedgerPublish(l *ledger.Ledger, claim string, said ledger.Text, last bool) (descriptor int, err error) {
	var of ledger.ID
	if claim != "" {
		var ok bool
		if of, ok = ledger.ParseID(claim); !ok {
			return 0, status.Errorf(status.InvalidArgument, "a claim's ID has 32 hexadecimal digits; got %q", claim)
		}
	}
	p, err := l.Publish(of, said)
	if err != nil {
		return 0, orNap(last, err)
	}
	if err := process.Shared().Publish(p); err != nil {
		return 0, errors.Join(err, process.Shared().Publish(nil))
	}
	return p.Descriptor(), nil
}

// LedgerUnpublish ends the publication of this process's figures.
func (calls) LedgerUnpublish() error { return process.Shared().Publish(nil) }
