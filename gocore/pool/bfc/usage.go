// SPDX-License-Identifier: Apache-2.0

package bfc

import "gpuconf/gocore/base/holder"

// Usage is the memory in use, by holder. Sizes are chunk sizes, as in Stats. The rows add up to Bytes and Blocks.
type Usage struct {
	Bytes     uint64        // the sizes of live blocks
	PeakBytes uint64        // the maximum of Bytes since ClearStats; from StopPeak, since StartPeak
	Blocks    uint64        // the number of live blocks
	Rows      []HolderUsage // holders that had memory in that time, in the order of their first allocation
}

// HolderUsage is the memory of one holder.
type HolderUsage struct {
	Holder    holder.ID // whose memory it is
	Bytes     uint64    // the sizes of live blocks
	PeakBytes uint64    // the maximum of Bytes, over the same time as Usage.PeakBytes
	Blocks    uint64    // the number of live blocks
}

// row counts the blocks of one holder (invariant 9).
type row struct {
	bytes  uint64
	blocks uint64
	peaks  peaks
	seen   bool // it is in Allocator.seen
}

// allocated counts a block and returns the bytes now in use.
func (r *row) allocated(bytes uint64) (inUse uint64) {
	r.blocks++
	r.bytes += bytes
	return r.bytes
}

func (r *row) freed(bytes uint64) {
	r.blocks--
	r.bytes -= bytes
}

func (r *row) row(by holder.ID) HolderUsage {
	return HolderUsage{Holder: by, Bytes: r.bytes, PeakBytes: r.peaks.recent, Blocks: r.blocks}
}

// roomForHolderLocked makes sure that a holder has a row.
func (a *Allocator) roomForHolderLocked(by holder.ID) {
	if int(by) >= len(a.rows) {
		a.rows = append(a.rows, make([]row, int(by)+1-len(a.rows))...)
	}
}

// raiseRowLocked updates the peaks of a holder's row. Its first allocation always gets here.
func (a *Allocator) raiseRowLocked(by holder.ID) {
	r := &a.rows[by]
	if !r.seen {
		r.seen = true
		a.seen = append(a.seen, by)
		if len(a.open.ids) > 0 {
			r.peaks.levels = []level{{first: 1}} // of all measurements that are open
		}
	}
	r.peaks.reach(r.bytes)
}

// Usage returns the memory in use by holder, with the peaks since ClearStats.
func (a *Allocator) Usage() Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.usageLocked()
}

func (a *Allocator) usageLocked() Usage {
	u := Usage{Bytes: a.stats.BytesInUse, PeakBytes: a.peaks.recent, Blocks: uint64(a.index.Count())}
	for _, by := range a.seen {
		if row := a.rows[by].row(by); row.PeakBytes > 0 {
			u.Rows = append(u.Rows, row)
		}
	}
	return u
}
