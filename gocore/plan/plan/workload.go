// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"slices"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
)

// mostBytes bounds the bytes that may be live at one time. It is more than any device has, but small enough that a
// replay in granules takes seconds: the sizes in a trace are only numbers, but each granule takes memory here.
const mostBytes = 4 << 40

// failedAddr stands in for the address of an allocation that failed. No block is there.
const failedAddr = 1<<64 - 1

// op allocates a block or, with bytes 0, frees it.
type op struct {
	block int32
	event int32 // its number in the trace, from 1; 0: it has none
	old   bool  // it allocates what was live when the trace began
	left  bool  // it frees no block: nothing uses a private pool any more
	// released is whether PyTorch has then released what it caches, too: the record has a segment that it released.
	released bool
	place    int32 // in the workload's list
	bytes    uint64
	size     uint64 // of an allocation: as trace.Event.Size has it

	holder, stack uint32 // of an allocation: the trace's numbers
	// workspace is the size by which a workspace is known: where there is no memory for it, PyTorch takes an engine
	// that needs none. 0: it allocates or frees something else.
	workspace uint64
}

// place is where PyTorch's allocator looks for a block.
type place struct {
	stream uint64
	pool   caching.PoolID
}

// peak is the first moment with the most bytes.
type peak struct {
	bytes     uint64
	requested uint64
	ops       int // the first ops, which lead to it
}

// workload is the part of a trace that concerns one logical GPU.
type workload struct {
	gpu      int
	ops      []op
	micros   []int64 // of each op
	began    int64   // time of the first event, which may be of a segment, as in gocore/plan/timeline
	blocks   int     // block numbers are below this
	largest  uint64  // request
	peakLive uint64  // most bytes live at one time, each request rounded up to 256: what any pool needs
	peak     peak    // when most was live, as trace.Event.Size counts blocks
	needed   uint64  // the same, with the allocation that ended the trace by failing; 0: there is none
	// failures counts the allocations that failed when the trace was recorded. How the job would have continued without
	// them is unknown.
	failures int
	unfreed  int     // blocks whose address was allocated again without a free in the trace
	before   int     // blocks that were live when the trace began
	places   []place // where memory was allocated
	live     int     // blocks that are live at the end

	without map[uint64]bool // workspaces that are left out

	// start is what PyTorch's allocator had before the first event. If it is nil, a replay starts without segments.
	start []caching.Segment
	addrs []uint64 // of the first ops, which allocate what is in start
}

// workloads splits a trace by GPU. With wanted, the allocation that ended a GPU's part by failing counts as one that
// the job needs. With poolsLeft, nothing uses a private pool after its last event.
func workloads(ctx context.Context, events []trace.Event, wanted, poolsLeft bool) ([]*workload, error) {
	complete, added := trace.Complete(events)
	numbers := 0 // events so far that users see
	final := map[int]int{}
	if wanted {
		final = trace.FinalFailures(events)
	}
	lengths := map[int]int{} // by GPU
	type pool struct {
		gpu    int
		number uint32
	}
	last := map[pool]int{} // event
	for i, e := range complete {
		lengths[e.GPU]++
		if e.Pool != 0 && poolsLeft {
			last[pool{e.GPU, e.Pool}] = i
		}
	}
	builders := map[int]*builder{}
	for i, e := range complete {
		if i%stepsBetween == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b := builders[e.GPU]
		if b == nil {
			b = newBuilder(e.GPU, lengths[e.GPU])
			builders[e.GPU] = b
		}
		number := 0
		if i >= added && !e.Hidden() {
			numbers++
			number = numbers
		}
		if number > 0 && !e.Before && !b.begun {
			b.began, b.begun = e.Micros, true
		}
		if err := b.add(e, number); err != nil {
			return nil, err
		}
		if at, there := last[pool{e.GPU, e.Pool}]; there && at == i {
			left := trace.Event{Action: trace.PoolLeft, GPU: e.GPU, Pool: e.Pool, Stream: e.Stream, Micros: e.Micros}
			if err := b.add(left, number); err != nil {
				return nil, err
			}
		}
		if number > 0 && final[e.GPU] == i+1-added && e.Bytes > 0 && e.Bytes <= mostBytes-b.now {
			e.Addr = failedAddr
			peak := b.peak
			b.allocate(e, number)
			b.needed, b.peak = b.peak.bytes, peak
		}
	}
	var list []*workload
	for _, b := range builders {
		if len(b.ops) > 0 || b.failures > 0 {
			b.workload.live = len(b.live)
			list = append(list, b.workload)
		}
	}
	slices.SortFunc(list, func(a, b *workload) int { return a.gpu - b.gpu })
	return list, nil
}

// markWorkspaces marks the allocations of the given sizes that are freed before anything else happens: a job needs none
// of them.
func (w *workload) markWorkspaces(sizes map[uint64]uint64, use Use) {
	w.without = map[uint64]bool{}
	bytesOf := make([]uint64, w.blocks)
	var live uint64
	w.peakLive = 0
	for i := range w.ops {
		o := &w.ops[i]
		mostBytes, known := sizes[o.bytes]
		switch {
		case o.left:
		case known && i+1 < len(w.ops) && w.ops[i+1].bytes == 0 && w.ops[i+1].block == o.block:
			o.workspace = o.bytes
			if use == None {
				w.without[o.workspace] = true
			} else if use == Most {
				o.bytes, o.size = mostBytes, rounded(mostBytes)
			}
		default:
			live += rounded(o.bytes) - bytesOf[o.block]
			bytesOf[o.block] = rounded(o.bytes)
		}
		w.peakLive = max(w.peakLive, live)
	}
}

// startFrom sets the start, if the ops that allocate what was live before are just its blocks.
func (w *workload) startFrom(start []caching.Segment) {
	allocated := map[uint64]bool{}
	for _, s := range start {
		for _, p := range s.Pieces {
			if p.Allocated {
				allocated[p.Addr] = true
			}
		}
	}
	if len(allocated) != len(w.addrs) || start == nil {
		return
	}
	for _, addr := range w.addrs {
		if !allocated[addr] {
			return
		}
	}
	w.start = start
}

// builder makes a workload.
type builder struct {
	*workload
	begun  bool            // began is set
	live   map[uint64]op   // by address
	unused []int32         // block numbers
	now    uint64          // bytes live, each request rounded up to 256
	sized  uint64          // as trace.Event.Size counts
	asked  uint64          // as requested
	places map[place]int32 // their numbers in the workload's list
	left   map[uint32]bool // private pools that nothing uses any more, and whether segments of them were released
}

func newBuilder(gpu, events int) *builder {
	w := &workload{gpu: gpu, ops: make([]op, 0, events+1), micros: make([]int64, 0, events+1)}
	return &builder{workload: w, live: map[uint64]op{}, places: map[place]int32{},
		left: map[uint32]bool{}}
}

func (b *builder) add(e trace.Event, number int) error {
	switch e.Action {
	case trace.Allocate:
		if e.Bytes > mostBytes-b.now {
			return status.Errorf(status.InvalidArgument, "event %d: more than %d bytes are live at one time, the "+
				"maximum that a plan replays for one GPU", number, uint64(mostBytes))
		}
		if e.Bytes == 0 {
			return nil
		}
		if _, there := b.live[e.Addr]; there {
			b.unfreed++
			b.free(e, number)
		}
		if e.Before {
			b.before++
			b.addrs = append(b.addrs, e.Addr)
		}
		b.allocate(e, number)
	case trace.Free:
		b.free(e, number)
	case trace.AllocateFailure:
		b.failures++
	case trace.SegmentFree, trace.SegmentUnmap, trace.PoolLeft:
		released := e.Action != trace.PoolLeft
		if was, there := b.left[e.Pool]; e.Pool != 0 && (!there || released && !was) {
			b.left[e.Pool] = released
			b.do(op{block: -1, event: int32(number), left: true, released: released, place: b.place(e)}, e.Micros)
		}
	}
	return nil
}

func (b *builder) allocate(e trace.Event, number int) {
	block := int32(b.blocks)
	if n := len(b.unused); n > 0 {
		block, b.unused = b.unused[n-1], b.unused[:n-1]
	} else {
		b.blocks++
	}
	o := op{block: block, event: int32(number), old: e.Before, place: b.place(e), bytes: e.Bytes, size: e.Size(),
		holder: e.Holder, stack: e.Stack}
	b.live[e.Addr] = o
	b.largest = max(b.largest, e.Bytes)
	b.do(o, e.Micros)
	b.now += rounded(e.Bytes)
	b.sized += o.size
	b.asked += o.bytes
	b.peakLive = max(b.peakLive, b.now)
	if b.sized > b.peak.bytes {
		b.peak = peak{b.sized, b.asked, len(b.ops)}
	}
}

// place returns the number of an event's place.
func (b *builder) place(e trace.Event) int32 {
	at := place{e.Stream, e.PoolName()}
	number, there := b.places[at]
	if !there {
		number = int32(len(b.workload.places))
		b.places[at] = number
		b.workload.places = append(b.workload.places, at)
	}
	return number
}

// streams returns on how many streams memory was allocated.
func (w *workload) streams() int {
	found := map[uint64]bool{}
	for _, at := range w.places {
		found[at.stream] = true
	}
	return len(found)
}

// free skips an address that is not live: that of a block of 0 bytes.
func (b *builder) free(e trace.Event, number int) {
	was, there := b.live[e.Addr]
	if !there {
		return
	}
	delete(b.live, e.Addr)
	b.unused = append(b.unused, was.block)
	b.do(op{block: was.block, event: int32(number)}, e.Micros)
	b.now -= rounded(was.bytes)
	b.sized -= was.size
	b.asked -= was.bytes
}

func (b *builder) do(o op, micros int64) {
	b.ops = append(b.ops, o)
	b.micros = append(b.micros, micros)
}

func rounded(bytes uint64) uint64 { return (bytes + 255) / 256 * 256 }
