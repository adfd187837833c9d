package main

import (
	"fmt"
	"math/bits"
	"slices"

	"gpuconf/tests_go/pool/traces"
)

// placement is the memory that a verified run of a whole trace needed, in bytes.
type placement struct {
	high     uint64 // the end of the highest block
	reserved uint64 // what the pool reserved on the device, if it reserves more than one stretch; else 0
}

// needed returns the device memory for it.
func (p placement) needed() uint64 {
	if p.reserved > 0 {
		return p.reserved
	}
	return p.high
}

// verify runs a trace on a contender and checks every address: no two live blocks overlap. In the league of equal
// interface the accounting must be correct: the peak is at least the live bytes and at most the needed memory, and
// nothing is left after all frees.
func (c contender) verify(trace *traces.Trace) (placement, error) {
	ops, left := withFrees(trace)
	p, err := c.open(trace.LimitBytes, trace.Blocks)
	if err != nil {
		return placement{}, err
	}
	defer p.close()
	addrs := make([]uint64, len(ops))
	if _, err := p.run(ops[:left], addrs[:left], nil); err != nil {
		return placement{}, err
	}
	before := p.count()
	if _, err := p.run(ops[left:], addrs[left:], nil); err != nil {
		return placement{}, err
	}
	after := p.count()
	place := placement{reserved: before.reserved}
	if place.high, err = disjoint(ops, addrs, trace.Blocks); err != nil {
		return place, err
	}
	if c.league == equal && (before.peak < trace.PeakBytes || before.peak > place.needed()) {
		return place, fmt.Errorf("its peak is %d bytes, where %d were live and %d were needed", before.peak,
			trace.PeakBytes, place.needed())
	}
	if place.needed() < trace.PeakBytes {
		return place, fmt.Errorf("%d bytes were live, and it took %d", trace.PeakBytes, place.needed())
	}
	if after.current != 0 {
		return place, fmt.Errorf("%d bytes are in use after all was freed", after.current)
	}
	return place, nil
}

// withFrees returns the trace followed by frees of all live blocks, which start at left.
func withFrees(trace *traces.Trace) (ops []traces.Op, left int) {
	live := make([]bool, trace.Blocks)
	for _, op := range trace.Ops {
		live[op.Block] = op.Bytes != 0
	}
	ops, left = trace.Ops[:len(trace.Ops):len(trace.Ops)], len(trace.Ops)
	for block, is := range live {
		if is {
			ops = append(ops, traces.Op{Block: uint32(block)})
		}
	}
	return ops, left
}

// disjoint follows the live blocks through a trace and returns the end of the highest one.
func disjoint(ops []traces.Op, addrs []uint64, blocks int) (high uint64, err error) {
	starts := slices.Clone(addrs)
	slices.Sort(starts)
	starts = slices.Compact(starts)
	ends := make([]uint64, len(starts)) // of the block that is live there
	live := make(bitSet, len(starts)/64+1)
	at := make([]uint64, blocks)
	for i, op := range ops {
		k, _ := slices.BinarySearch(starts, addrs[i])
		if op.Bytes == 0 {
			if addrs[i] != at[op.Block] || live.from(k) != k {
				return high, fmt.Errorf("operation %d freed address %#x, where its block is not", i, addrs[i])
			}
			live.flip(k)
			continue
		}
		end := addrs[i] + op.Bytes
		below, above := live.below(k), live.from(k)
		if below >= 0 && ends[below] > addrs[i] || above >= 0 && starts[above] < end {
			return high, fmt.Errorf("operation %d got %d bytes at %#x, where a block is live", i, op.Bytes, addrs[i])
		}
		live.flip(k)
		at[op.Block], ends[k] = addrs[i], end
		high = max(high, end)
	}
	return high, nil
}

// bitSet is a set of numbers, 64 in each word.
type bitSet []uint64

func (s bitSet) flip(k int) { s[k/64] ^= 1 << (k % 64) }

// from returns the lowest number that is at least k, or -1.
func (s bitSet) from(k int) int {
	word := s[k/64] &^ (1<<(k%64) - 1)
	for w := k / 64; ; word = s[w] {
		if word != 0 {
			return 64*w + bits.TrailingZeros64(word)
		}
		if w++; w == len(s) {
			return -1
		}
	}
}

// below returns the highest number below k, or -1.
func (s bitSet) below(k int) int {
	word := s[k/64] & (1<<(k%64) - 1)
	for w := k / 64; ; word = s[w] {
		if word != 0 {
			return 64*w + bits.Len64(word) - 1
		}
		if w--; w < 0 {
			return -1
		}
	}
}
