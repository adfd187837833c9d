package main

import (
	"time"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/pool/traces"
)

// The names of our contenders.
const (
	oursExact = "gpuconf"
	oursRule  = "gpuconf, TensorFlow's split rule"
	oursBare  = "gpuconf, as it is"
)

// ours are gpuconf's allocators: a mutex, blocks freed by address, all of its statistics.
func ours() []contender {
	return []contender{
		{oursExact, equal, opener(bfc.SplitRule{}), true},
		{oursRule, equal, opener(bfc.SplitRule{TensorFlow: true}), true},
		{oursBare, bare, opener(bfc.SplitRule{}), true},
	}
}

func opener(rule bfc.SplitRule) func(uint64, int) (pool, error) {
	return func(bytes uint64, blocks int) (pool, error) {
		regions := suballoc.NewRegions(fakedevice.New(bytes), suballoc.Options{LimitBytes: bytes})
		a, err := bfc.New(regions, bfc.Options{Split: rule})
		if err != nil {
			return nil, err
		}
		return &ourPool{a: a, owner: true, addrs: make([]uint64, blocks)}, nil
	}
}

type ourPool struct {
	a     *bfc.Allocator
	owner bool     // close closes the allocator
	addrs []uint64 // by block
}

// origin is the start of the clock: reading the time since then takes a single clock call.
var origin = time.Now()

func (p *ourPool) run(ops []traces.Op, addrs []uint64, nanos []uint32) (int64, error) {
	switch {
	case nanos != nil:
		return p.timed(ops, nanos)
	case addrs != nil:
		return p.placed(ops, addrs)
	}
	start := time.Since(origin)
	for i, op := range ops {
		if err := p.step(op); err != nil {
			return 0, errNoMemory(i, op)
		}
	}
	return int64(time.Since(origin) - start), nil
}

func (p *ourPool) step(op traces.Op) error {
	if op.Bytes == 0 {
		return p.a.Free(p.addrs[op.Block])
	}
	block, err := p.a.Allocate(op.Bytes)
	p.addrs[op.Block] = block.Addr
	return err
}

func (p *ourPool) placed(ops []traces.Op, addrs []uint64) (int64, error) {
	for i, op := range ops {
		if err := p.step(op); err != nil {
			return 0, errNoMemory(i, op)
		}
		addrs[i] = p.addrs[op.Block] - fakedevice.Base
	}
	return 0, nil
}

func (p *ourPool) timed(ops []traces.Op, nanos []uint32) (int64, error) {
	start := time.Since(origin)
	before := start
	for i, op := range ops {
		if err := p.step(op); err != nil {
			return 0, errNoMemory(i, op)
		}
		now := time.Since(origin)
		nanos[i] = uint32(now - before)
		before = now
	}
	return int64(before - start), nil
}

func (p *ourPool) count() counters {
	s := p.a.Stats()
	return counters{current: s.BytesInUse, peak: s.PeakBytesInUse, loop: 8 * uint64(len(p.addrs))}
}

func (p *ourPool) beside(blocks int) pool { return &ourPool{a: p.a, addrs: make([]uint64, blocks)} }

func (p *ourPool) close() {
	if p.owner {
		_ = p.a.Close()
	}
}
