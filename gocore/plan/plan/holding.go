// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
)

// Holding is what one holder has allocated with one stack, of the blocks that are live at a peak.
type Holding struct {
	Holder uint32 `json:"holder"`       // the trace's number of who holds the blocks
	Stack  uint32 `json:"stack"`        // the trace's number of the calls that allocated them
	Before bool   `json:"before"`       // all that is known is that they were live when the trace began
	Bytes  uint64 `json:"bytes_in_use"` // their sizes, as trace.Event.Size returns them
	Blocks int    `json:"live_blocks"`  // the number of blocks
}

// atPeak returns who holds the memory at the peak, the largest first.
func (w *workload) atPeak() []Holding {
	live := make([]op, w.blocks) // by block number
	for _, o := range w.ops[:w.peak.ops] {
		live[o.block] = o
	}
	type key struct {
		holder, stack uint32
		before        bool
	}
	sums := map[key]*Holding{}
	for _, o := range live {
		if o.bytes == 0 {
			continue
		}
		k := key{o.holder, o.stack, o.old && o.stack == 0}
		if sums[k] == nil {
			sums[k] = &Holding{Holder: k.holder, Stack: k.stack, Before: k.before}
		}
		sums[k].Bytes += o.size
		sums[k].Blocks++
	}
	list := make([]Holding, 0, len(sums))
	for _, h := range sums {
		list = append(list, *h)
	}
	slices.SortFunc(list, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.Stack, b.Stack))
	})
	return list
}
