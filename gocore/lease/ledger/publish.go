// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"sync"

	"golang.org/x/sys/unix"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/figures"
)

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
