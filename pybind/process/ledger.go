package process

import (
	"gpuconf/gocore/devmgr"
	"gpuconf/gocore/ledger"
	"gpuconf/gocore/status"
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

// Publish publishes the figures of this process's pools, now and of later devices, in place of an earlier publication. nil ends it.
func (p *State) Publish(to *ledger.Publication) error {
	if err := Alive(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.publication
	p.publication = to
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
