// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"cmp"
	"slices"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/trace"
)

// Holding is memory of one holder. If a recording with stacks is running, it is what one call site has allocated.
type Holding struct {
	Holder holder.ID   // who requested the blocks
	Site   trace.Frame // where the blocks were allocated; the zero value: unknown
	Bytes  uint64      // the sizes of live blocks
	Blocks uint64      // the number of live blocks
}

// mostHoldings is the number of holdings that a report lists.
const mostHoldings = 5

// String returns "torch, tag optimizer: 3.00GiB (3221225472 bytes) in 12 blocks, allocated at train.py:12 (step)".
func (h Holding) String() string {
	text := h.Holder.Library().String() + ", "
	if tag := h.Holder.Tag().String(); tag != "" {
		text += "tag " + tag
	} else {
		text += "untagged"
	}
	text += ": " + h.size()
	if h.Site != (trace.Frame{}) {
		text += ", allocated at " + h.Site.String()
	}
	return text
}

func (h Holding) size() string { return human.Exact(h.Bytes) + " in " + human.Count(h.Blocks, "block") }

// holdingsLocked returns who holds the most memory, the sum of all others, and their number.
func (a *Allocator) holdingsLocked() (most []Holding, others Holding, rest int) {
	if a.sites == nil {
		most = a.holdingsByRowLocked()
	} else {
		most = a.holdingsBySiteLocked()
	}
	slices.SortStableFunc(most, func(g, h Holding) int { return cmp.Compare(h.Bytes, g.Bytes) })
	for _, h := range most[min(len(most), mostHoldings):] {
		others.Bytes, others.Blocks = others.Bytes+h.Bytes, others.Blocks+h.Blocks
		rest++
	}
	return most[:min(len(most), mostHoldings)], others, rest
}

func (a *Allocator) holdingsByRowLocked() (list []Holding) {
	for _, by := range a.seen {
		if r := &a.rows[by]; r.blocks > 0 {
			list = append(list, Holding{Holder: by, Bytes: r.bytes, Blocks: r.blocks})
		}
	}
	return list
}

// holdingsBySiteLocked walks all chunks.
func (a *Allocator) holdingsBySiteLocked() (list []Holding) {
	type key struct {
		holder holder.ID
		site   trace.Frame
	}
	frames := map[uint32]trace.Frame{0: {}}
	places := map[key]int{}
	for _, r := range a.regions {
		for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
			c := &a.chunks.Records[i]
			if c.Free() || c.Held() {
				continue
			}
			frame, known := frames[a.sites[i]]
			if !known {
				frame, _ = a.ring.Sites().Stack(a.sites[i]).CallSite()
				frames[a.sites[i]] = frame
			}
			k := key{c.Holder(), frame}
			at, known := places[k]
			if !known {
				at = len(list)
				places[k], list = at, append(list, Holding{Holder: k.holder, Site: frame})
			}
			list[at].Bytes += c.Bytes()
			list[at].Blocks++
		}
	}
	return list
}
