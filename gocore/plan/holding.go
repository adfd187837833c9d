// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
)

// Holding is what one holder has allocated with one stack, of the blocks that are live at a peak. Holder and Stack are the
// trace's numbers.
type Holding struct {
	Holder uint32 `json:"holder"`
	Stack  uint32 `json:"stack"`
	Bytes  uint64 `json:"bytes_in_use"` // blocks rounded up to 256
	Blocks int    `json:"live_blocks"`
}

// atPeak returns who holds the memory at the peak, the largest first.
func (w *workload) atPeak() []Holding {
	live := make([]op, w.blocks) // by block number
	for _, o := range w.ops[:w.peakOps] {
		live[o.block] = o
	}
	sums := map[[2]uint32]*Holding{}
	for _, o := range live {
		if o.bytes == 0 {
			continue
		}
		key := [2]uint32{o.holder, o.stack}
		if sums[key] == nil {
			sums[key] = &Holding{Holder: o.holder, Stack: o.stack}
		}
		sums[key].Bytes += rounded(o.bytes)
		sums[key].Blocks++
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
