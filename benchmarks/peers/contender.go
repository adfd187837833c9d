package main

import (
	"fmt"

	"gpuconf/tests_go/pool/traces"
)

// league is what an allocator must do beside placing blocks.
type league string

const (
	bare    league = "bare"
	equal   league = "equal"
	threads league = "threads" // runs only in the races of threads
)

// contender is an allocator under comparison.
type contender struct {
	name   string
	league league
	open   func(poolBytes uint64, blocks int) (pool, error)
	shares bool // several threads may use a pool, each through its own beside
}

// pool is one allocator and the blocks that a trace has allocated from it.
type pool interface {
	// run executes operations and returns the time they took. addrs, unless nil, receives the address of each
	// operation's block, relative to the start of the pool; nanos the time of each, including the clock's own.
	run(ops []traces.Op, addrs []uint64, nanos []uint32) (ns int64, err error)
	// beside returns the same allocator for another thread, with slots for its own blocks. It is closed like a pool.
	beside(blocks int) pool
	count() counters
	close()
}

// counters is a pool's own accounting, in bytes; 0: not counted.
type counters struct {
	current, peak uint64 // live, as the pool sizes blocks
	reserved      uint64 // the maximum it reserved on the device, if it reserves more than one stretch
	loop          uint64 // host memory of the loop, not of the allocator
}

func errNoMemory(i int, op traces.Op) error {
	return fmt.Errorf("operation %d found no memory for %d bytes", i, op.Bytes)
}

// slow is a contender whose time grows with the number of its free blocks: it gets fewer operations if there are many.
func (c contender) slow() bool { return c.name == "RMM's free list" }

// small is an allocator of host memory, which leaves large blocks to the operating system.
func (c contender) small() bool { return c.name == "mimalloc" }

// inBand is a contender that writes into the memory it manages.
func (c contender) inBand() bool { return c.name == "rlsf (TLSF)" }

// unfit returns why a contender does not run a trace; empty: it does.
func (c contender) unfit(trace *traces.Trace) string {
	if c.slow() && trace.Blocks > 60_000 {
		return "every operation walks the list of free blocks: building this state up would take hours"
	}
	if c.inBand() && trace.Blocks > 200_000 {
		return "it writes in front of every block: this many would touch several GiB"
	}
	return c.tooLarge(trace.LimitBytes)
}

// tooLarge returns why a pool is too large for a contender whose host memory is proportional to the pool, not to its
// blocks.
func (c contender) tooLarge(poolBytes uint64) string {
	if c.name != "TensorFlow's BFCAllocator" {
		return ""
	}
	const entry, per = 8, 256
	if need := int64(poolBytes / per * entry); 2*need > available() {
		return fmt.Sprintf("its table of %d bytes for every %d of the pool would take %.1f GiB, half of what is "+
			"free here", entry, per,
			float64(need)/(1<<30))
	}
	return ""
}
