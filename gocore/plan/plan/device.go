// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"slices"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/suballoc"
)

// Card describes the GPU below a pool.
type Card struct {
	Name         string // for messages
	MemoryBytes  uint64 // 0: unlimited
	GranuleBytes uint64 // of virtual memory management; 0: 2 MiB
}

const usualGranuleBytes = 2 << 20

// device assigns addresses and counts bytes. It has no memory.
type device struct {
	free, held uint64
	granule    uint64
	next       uint64            // the next address; no address is reused
	sizes      map[uint64]uint64 // by address, or by handle
}

var _ suballoc.VirtualUpstream = (*device)(nil)

func newDevice(card Card) *device {
	d := &device{free: card.MemoryBytes, granule: card.GranuleBytes, next: 1 << 40, sizes: map[uint64]uint64{}}
	if d.free == 0 {
		d.free = math.MaxInt64
	}
	if d.granule == 0 {
		d.granule = usualGranuleBytes
	}
	return d
}

// take counts bytes under a new name, which serves as address or handle.
func (d *device) take(bytes uint64) (name uint64, err error) {
	if bytes > d.free {
		return 0, status.Errorf(status.ResourceExhausted, "%d bytes requested, %d left", bytes, d.free)
	}
	d.free -= bytes
	d.held += bytes
	name = d.reserve(bytes)
	d.sizes[name] = bytes
	return name, nil
}

func (d *device) release(name uint64) error {
	bytes, ok := d.sizes[name]
	if !ok {
		return status.Errorf(status.Internal, "no memory at %#x", name)
	}
	delete(d.sizes, name)
	d.free += bytes
	d.held -= bytes
	return nil
}

// reserve returns an address that is a multiple of the granule.
func (d *device) reserve(bytes uint64) (addr uint64) {
	addr = d.next
	d.next += (bytes/d.granule + 1) * d.granule
	return addr
}

func (d *device) MemAlloc(bytes uint64) (uint64, error)  { return d.take(bytes) }
func (d *device) MemFree(addr uint64) error              { return d.release(addr) }
func (d *device) MemCreate(bytes uint64) (uint64, error) { return d.take(bytes) }
func (d *device) MemRelease(handle uint64) error         { return d.release(handle) }

func (d *device) MemGetAllocationGranularity() (uint64, error)      { return d.granule, nil }
func (d *device) MemAddressReserve(bytes, _ uint64) (uint64, error) { return d.reserve(bytes), nil }
func (d *device) MemAddressFree(_, _ uint64) error                  { return nil }
func (d *device) MemMap(_, _, _ uint64) error                       { return nil }
func (d *device) MemUnmap(_, _ uint64) error                        { return nil }
func (d *device) MemSetAccess(_, _ uint64) error                    { return nil }

// granules counts those of a range of addresses in which blocks lie: only the others can be moved. A nil one counts
// nothing.
type granules struct {
	addr, end uint64
	granule   uint64
	ends      []int32 // of blocks, by granule
	now, peak uint64  // bytes
}

func newGranules(v *suballoc.Virtual) *granules {
	addr, bytes, granule := v.Range()
	return &granules{addr: addr, end: addr + bytes, granule: granule}
}

// count adds n for the granules with the ends of a block and returns how many bytes of them no other block touches,
// with what lies between them. Nothing outside the range counts.
func (g *granules) count(addr, bytes uint64, n int32) (alone uint64) {
	if addr < g.addr || addr >= g.end {
		return 0
	}
	first, last := (addr-g.addr)/g.granule, (addr+bytes-1-g.addr)/g.granule
	for uint64(len(g.ends)) <= last {
		g.ends = append(g.ends, make([]int32, 1+len(g.ends))...)
	}
	at := func(i uint64) {
		if max(g.ends[i], g.ends[i]+n) == 1 {
			alone += g.granule
		}
		g.ends[i] += n
	}
	at(first)
	if last > first {
		at(last)
		alone += (last - first - 1) * g.granule
	}
	return alone
}

func (g *granules) add(addr, bytes uint64) {
	if g != nil {
		g.now += g.count(addr, bytes, 1)
		g.peak = max(g.peak, g.now)
	}
}

func (g *granules) remove(addr, bytes uint64) {
	if g != nil {
		g.now -= g.count(addr, bytes, -1)
	}
}

// most returns the most bytes that were counted, or would have been with a request that failed.
func (g *granules) most(short uint64) uint64 {
	if g == nil {
		return 0
	}
	return max(g.peak, g.now+short)
}

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
		if !o.left {
			live[o.block] = o
		}
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
