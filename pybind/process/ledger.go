// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/lease/ledger"
	"gpuconf/gocore/tf/config"
)

// The ledgers and claims that Python has handles to.
var (
	ledgers table[*ledger.Ledger]
	claims  table[*ledger.Claim]
)

// OpenLedger opens a ledger and returns its number.
func OpenLedger(folder string, create bool) (id int64, err error) {
	if err := Alive(); err != nil {
		return 0, err
	}
	l, err := ledger.Open(folder, create)
	if err != nil {
		return 0, err
	}
	l.Patience = 0 // Python sleeps, in C: see pybind/_gpuconf/nap.c
	return ledgers.put(l), nil
}

// FindLedger finds a ledger by its number.
func FindLedger(id int64) (*ledger.Ledger, error) { return ledgers.get(id, "ledger") }

// CloseLedger closes a ledger. Its claims stay.
func CloseLedger(id int64) error {
	l, err := ledgers.remove(id, "ledger")
	if err != nil {
		return err
	}
	return l.Close()
}

// PutClaim stores a claim and returns its number.
func PutClaim(c *ledger.Claim) (id int64) { return claims.put(c) }

// FindClaim finds a claim by its number.
func FindClaim(id int64) (*ledger.Claim, error) { return claims.get(id, "claim") }

// ReleaseClaim releases a claim.
func ReleaseClaim(id int64) error {
	c, err := claims.remove(id, "claim")
	if err == nil {
		c.Release()
	}
	return err
}

// Publish publishes the figures of this process's pools, now and of later devices, in place of an earlier publication.
// nil ends it.
func (p *State) Publish(to *ledger.Publication) error {
	if err := Alive(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.publication
	p.publication, p.automatic = to, false
	p.published.Store(to)
	var err error
	if m := p.manager.Load(); m != nil {
		err = p.publishLocked(m)
	}
	if before != nil {
		before.End() // no pool writes there any more
	}
	if err != nil {
		return status.Errorf(status.CodeOf(err), "cannot publish the figures of the GPUs: %w", err)
	}
	return nil
}

func (p *State) publishLocked(m *devmgr.Manager) error {
	if p.publication == nil {
		return m.Publish(nil)
	}
	return m.Publish(p.publication)
}

// publishFrom publishes the figures of the pools in the ledger that Python names in the environment, as a process of
// its lease, unless they are published already. What goes wrong is a notice: the devices work without.
func (p *State) publishFrom(m *devmgr.Manager, env config.Env) {
	if env["GPUCONF_LEDGER"] == "" || m.LogicalGPUs() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.publication != nil || p.manager.Load() != m {
		return
	}
	if err := p.publishInLocked(m, env["GPUCONF_LEDGER"], env["GPUCONF_LEASE"]); err != nil {
		p.notices = append(p.notices,
			config.Notice{Level: "warning", Text: fmt.Sprintf("the ledger does not show this process's use of GPUs: %v",
				err)})
	}
}

func (p *State) publishInLocked(m *devmgr.Manager, folder, lease string) error {
	l, err := ledger.Open(folder, false)
	if err != nil {
		return err
	}
	claim, _ := ledger.ParseID(lease) // of a program that was started without a lease: the zero ID
	to, err := l.Publish(claim, ledger.Text{Command: ledger.OwnCommand()})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	p.publication, p.automatic = to, true
	p.published.Store(to)
	if err := p.publishLocked(m); err != nil {
		p.endPublicationLocked()
		return err
	}
	return nil
}

// endPublicationLocked ends what publishFrom began. The pools are closed, or do not write there.
func (p *State) endPublicationLocked() {
	if p.automatic {
		p.publication.End()
		_ = p.publication.Ledger().Close() // opened by publishFrom; it only read
		p.publication, p.automatic = nil, false
		p.published.Store(nil)
	}
}

// Published returns the descriptor of the slot that publishFrom took, which a forked child must close; -1 if there is
// none.
func (p *State) Published() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.automatic {
		return -1
	}
	return p.publication.Descriptor()
}
