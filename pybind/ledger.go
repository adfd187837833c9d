// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"errors"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// LedgerInit makes a ledger for several users of a folder. group, unless it is negative, is the only group that may use
// it.
func LedgerInit(folder string, group int64) (done bool, err error) {
	defer process.Gate(&err)
	return true, ledger.InitShared(folder, int(group))
}

// LedgerOpen opens the ledger of a folder and returns its number. With create, it makes a private one if there is none.
func LedgerOpen(folder string, create bool) (id int64, err error) {
	defer process.Gate(&err)
	return process.OpenLedger(folder, create)
}

// LedgerMayMake raises the reason why a folder cannot become a private ledger. It changes nothing.
func LedgerMayMake(folder string) (done bool, err error) {
	defer process.Gate(&err)
	return true, ledger.MayMake(folder)
}

// LedgerLost returns the leases of this user that the ledger of a folder no longer has, or that older ledgers have: a
// list of sentences.
func LedgerLost(folder string) (found string, err error) {
	defer process.Gate(&err)
	return encode(append([]string{}, ledger.Lost(folder)...))
}

// onLedger calls use with a ledger.
func onLedger[R any](id int64, use func(*ledger.Ledger) (R, error)) (R, error) {
	return given(func() (*ledger.Ledger, error) { return process.FindLedger(id) }, use)
}

// onClaim calls use with a claim.
func onClaim[R any](id int64, use func(*ledger.Claim) (R, error)) (R, error) {
	return given(func() (*ledger.Claim, error) { return process.FindClaim(id) }, use)
}

// LedgerClose closes a ledger. Claims and published figures stay.
func LedgerClose(id int64) (done bool, err error) {
	defer process.Gate(&err)
	return true, process.CloseLedger(id)
}

// LedgerIsShared reports whether several users may use a ledger.
func LedgerIsShared(id int64) (shared bool, err error) {
	defer process.Gate(&err)
	return onLedger(id, func(l *ledger.Ledger) (bool, error) { return l.Shared, nil })
}

// LedgerWords returns the address of the words on which C's nap() sleeps. It is valid until the ledger is closed; 0:
// there are none.
func LedgerWords(id int64) (address int64, err error) {
	defer process.Gate(&err)
	return onLedger(id, func(l *ledger.Ledger) (int64, error) { return int64(l.Words()), nil })
}

// napOf is a nap as a number above 0, for C's nap(): what the word was (32 bits), the word (10), milliseconds (10),
// whether it is deaf (1).
func napOf(nap ledger.Nap) int64 {
	number := int64(nap.Was) | int64(nap.Word)<<32 | min(max(nap.Most.Milliseconds(), 1), 1023)<<42
	if nap.Deaf {
		number |= 1 << 52
	}
	return number
}

// orNap turns the error of a ledger whose lock another process holds into a nap, as a number below 0, unless it is the
// caller's last try.
func orNap(last bool, err *error) (number int64) {
	var busy *ledger.Busy
	if last || !errors.As(*err, &busy) {
		return 0
	}
	*err = nil
	return -napOf(busy.Nap)
}

// LedgerClaim enters a ledger.Request and returns the claim's number, which LedgerRelease frees. If another process
// holds the ledger's lock, it returns the nap to take before the next try, below 0; last makes that an error.
func LedgerClaim(id int64, request string, last bool) (claim int64, err error) {
	defer process.Gate(&err)
	return onLedger(id, func(l *ledger.Ledger) (int64, error) {
		var wanted ledger.Request
		if err := wire.Decode(request, &wanted); err != nil {
			return 0, err
		}
		c, err := l.Claim(wanted)
		if nap := orNap(last, &err); nap < 0 || err != nil {
			return nap, err
		}
		return process.PutClaim(c), nil
	})
}

// LedgerLook looks whether a claim is granted, and returns 0 then, else the nap to take before the next look. If
// another process holds the ledger's lock, it returns a nap below 0; last makes that an error. cards, a list
// of ledger.Card unless empty, replaces what was said of the candidates.
func LedgerLook(claim int64, cards string, last bool) (nap int64, err error) {
	defer process.Gate(&err)
	return onClaim(claim, func(c *ledger.Claim) (int64, error) {
		var candidates []ledger.Card
		if cards != "" {
			if err := wire.Decode(cards, &candidates); err != nil {
				return 0, err
			}
		}
		granted, next, err := c.Look(candidates)
		if nap := orNap(last, &err); nap < 0 || err != nil || granted {
			return nap, err
		}
		return napOf(next), nil
	})
}

// LedgerGrant returns the wire.Grant of a claim.
func LedgerGrant(claim int64) (grant string, err error) {
	defer process.Gate(&err)
	return send(onClaim(claim, func(c *ledger.Claim) (wire.Grant, error) {
		descriptor, err := c.Descriptor()
		return wire.Grant{ID: c.ID(), Cards: c.Cards(), Descriptor: descriptor}, err
	}))
}

// LedgerRelease releases a claim.
func LedgerRelease(claim int64) (done bool, err error) {
	defer process.Gate(&err)
	return true, process.ReleaseClaim(claim)
}

// LedgerRows returns wire.LedgerRows, all that are alive.
func LedgerRows(id int64) (rows string, err error) {
	defer process.Gate(&err)
	return send(onLedger(id, func(l *ledger.Ledger) (message wire.LedgerRows, err error) {
		message.Claims, message.Processes, err = l.Rows()
		return message, err
	}))
}

// LedgerCheck returns what is wrong with a ledger, a list of sentences.
func LedgerCheck(id int64) (findings string, err error) {
	defer process.Gate(&err)
	return sendJSON(onLedger(id, func(l *ledger.Ledger) ([]string, error) {
		return append([]string{}, l.Check()...), nil
	}))
}

// LedgerPublish publishes the figures of this process's pools in a ledger, as a process of a claim ("" for none) with a
// ledger.Text, and returns the descriptor that a forked child must close. If another process holds
// the ledger's lock, it returns the nap to take before the next try, below 0; last makes that an error.
func LedgerPublish(id int64, claim string, said string, last bool) (descriptor int64, err error) {
	defer process.Gate(&err)
	return onLedger(id, func(l *ledger.Ledger) (int64, error) {
		var words ledger.Text
		if err := wire.Decode(said, &words); err != nil {
			return 0, err
		}
		var of ledger.ID
		if claim != "" {
			var ok bool
			if of, ok = ledger.ParseID(claim); !ok {
				return 0, status.Errorf(status.InvalidArgument, "a claim's ID has 32 hexadecimal digits; got %q", claim)
			}
		}
		p, err := l.Publish(of, words)
		if nap := orNap(last, &err); nap < 0 || err != nil {
			return nap, err
		}
		if err := process.Shared().Publish(p); err != nil {
			return 0, errors.Join(err, process.Shared().Publish(nil))
		}
		return int64(p.Descriptor()), nil
	})
}

// LedgerUnpublish ends the publication of this process's figures.
func LedgerUnpublish() (done bool, err error) {
	defer process.Gate(&err)
	return true, process.Shared().Publish(nil)
}
