package main

import (
	"fmt"

	"gpuconf/tests_go/traces"
)

// league is what an allocator has to do beside placing blocks.
type league string

const (
	bare  league = "bare"
	equal league = "equal"
)

// contender is an allocator under comparison.
type contender struct {
	name   string
	league league
	open   func(poolBytes uint64, blocks int) (pool, error)
}

// pool is one allocator and the blocks that a trace has taken of it.
type pool interface {
	// run does operations and gives the time they took. addrs, unless nil, gets the address of each operation's block, counted from
	// where the pool begins; nanos the time of each, the clock's own included.
	run(ops []traces.Op, addrs []uint64, nanos []uint32) (ns int64, err error)
	tell() books
	close()
}

// books is what a pool tells of itself, in bytes; 0: it keeps no such book.
type books struct {
	current, peak uint64 // live, as the pool sizes blocks
	reserved      uint64 // the most it took from the device, where it takes more than one stretch
	loop          uint64 // host memory of the loop, not of the allocator
}

func errNoMemory(i int, op traces.Op) error {
	return fmt.Errorf("operation %d found no memory for %d bytes", i, op.Bytes)
}

// slow is a contender whose time grows with the number of its free blocks: it gets fewer operations where there are many.
func (c contender) slow() bool { return c.name == "RMM's free list" }

// small is an allocator of host memory, for which large blocks are the operating system's.
func (c contender) small() bool { return c.name == "mimalloc" }

// inBand is a contender that writes into the memory it manages.
func (c contender) inBand() bool { return c.name == "rlsf (TLSF)" }

// unfit says why a contender is not asked to do a trace; empty: it is.
func (c contender) unfit(trace *traces.Trace) string {
	if c.slow() && trace.Blocks > 60_000 {
		return "every operation walks the list of free blocks: building this state up would take hours"
	}
	if c.inBand() && trace.Blocks > 200_000 {
		return "it writes in front of every block: this many would touch several GiB"
	}
	return c.tooLarge(trace.LimitBytes)
}

// tooLarge says why a pool is too large for a contender whose host memory is in proportion to the pool, not to its blocks.
func (c contender) tooLarge(poolBytes uint64) string {
	if c.name != "TensorFlow's BFCAllocator" {
		return ""
	}
	const entry, per = 8, 256
	if need := int64(poolBytes / per * entry); 2*need > available() {
		return fmt.Sprintf("its table of %d bytes for every %d of the pool would take %.1f GiB, half of what is free here", entry, per,
			float64(need)/(1<<30))
	}
	return ""
}
