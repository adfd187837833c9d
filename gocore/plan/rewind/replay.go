// SPDX-License-Identifier: Apache-2.0

package rewind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
)

// stepsBetween is how many events are processed between two checks of the context.
const stepsBetween = 1 << 10

// Verify replays a history. It fails only with the context's error: a record that contradicts itself differs. A
// snapshot does not name PyTorch's version, so both ways to break ties are tried.
func Verify(ctx context.Context, history *trace.History) (*Verdict, error) {
	verdict, err := verify(ctx, history, history.Settings.TiesByAge)
	if err != nil || verdict.Same() {
		return verdict, err
	}
	other, err := verify(ctx, history, !history.Settings.TiesByAge)
	if err == nil && (other.Same() || other.SameAddress > verdict.SameAddress) {
		return other, nil
	}
	return verdict, err
}

func verify(ctx context.Context, history *trace.History, tiesByAge bool) (*Verdict, error) {
	verdict := &Verdict{}
	settings := SettingsOf(history.Settings)
	for number, gpu := range history.GPUs {
		r := replay{gpu: gpu, verdict: verdict, settings: settings, tiesByAge: tiesByAge}
		if err := r.run(ctx); err != nil {
			var contradiction inconsistent
			if !errors.As(err, &contradiction) {
				return nil, err
			}
			verdict.differs("GPU %d: %s", number, contradiction)
		}
	}
	return verdict, nil
}

// SettingsOf returns the settings that a snapshot names.
func SettingsOf(s trace.HistorySettings) caching.Settings {
	return caching.Settings{
		MaxSplitBytes: s.MaxSplitBytes, MaxRoundingBytes: s.MaxRoundingBytes, LargeSegmentBytes: s.LargeSegmentBytes,
		GarbageThreshold: s.GarbageThreshold, ExpandableSegments: s.ExpandableSegments,
		RoundupDivisions: s.RoundupDivisions,
	}
}

// replay is the model beside the record of one GPU.
type replay struct {
	gpu       trace.GPUHistory
	tiesByAge bool
	verdict   *Verdict
	settings  caching.Settings

	model  *caching.Allocator
	device *device
	live   map[uint64]*caching.Block
	unsure map[uint64]uint64 // by how much live blocks may be larger

	pool  func(number int, e trace.Event) caching.PoolID
	begin *start
	sizes []uint64 // of the blocks that events allocate or free, by event; nil: not wanted
}

func (r *replay) run(ctx context.Context) error {
	r.count()
	begin, err := startOf(ctx, r.gpu, &r.settings)
	if err != nil {
		return err
	}
	if r.unsure, err = begin.measure(&r.settings, r.gpu.Events); err != nil {
		return err
	}
	r.begin = begin
	r.restore(begin)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, e := range r.gpu.Events {
		if i%stepsBetween == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if r.sizes != nil && e.Action == trace.Free && r.live[e.Addr] != nil {
			r.sizes[i] = r.live[e.Addr].Bytes
		}
		if err := r.step(i+1, e); err != nil {
			return err
		}
		if r.sizes != nil && e.Action == trace.Allocate && r.live[e.Addr] != nil {
			r.sizes[i] = r.live[e.Addr].Bytes
		}
		if r.verdict.Difference != "" {
			return nil
		}
	}
	return r.end()
}

// count counts what there is to compare.
func (r *replay) count() {
	for _, e := range r.gpu.Events {
		switch e.Action {
		case trace.Allocate:
			r.verdict.Allocations++
		case trace.SegmentAlloc, trace.SegmentFree, trace.SegmentMap, trace.SegmentUnmap:
			r.verdict.Segments++
		}
	}
}

// restore gives the model the state before the first event.
func (r *replay) restore(begin *start) {
	r.device = &device{verdict: r.verdict, frees: map[release][]int{}}
	r.model = caching.New(r.device, caching.Options{Settings: r.settings, TiesByAge: r.tiesByAge})
	r.live = map[uint64]*caching.Block{}
	for _, a := range begin.segments {
		for _, block := range r.model.Restore(a.segment()) {
			r.live[block.Addr] = block
		}
	}
	slices.SortFunc(r.gpu.Segments, func(a, b trace.Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	r.pool = poolsOf(r.gpu)
}

// takenAt returns for each segment at the end, sorted by address, the number of the event that took it; 0: it was there
// at the start.
func takenAt(gpu trace.GPUHistory) []int {
	numbers := make([]int, len(gpu.Segments))
	for i, e := range gpu.Events {
		if e.Action != trace.SegmentAlloc {
			continue
		}
		at, there := slices.BinarySearchFunc(gpu.Segments, e.Addr,
			func(s trace.Segment, addr uint64) int { return cmp.Compare(s.Addr, addr) })
		if there {
			numbers[at] = i + 1
		}
	}
	return numbers
}

func (a *area) segment() caching.Segment {
	return caching.Segment{Addr: a.Addr, Bytes: a.Bytes, Stream: a.Stream, Pool: a.Pool, Small: a.Small,
		Expandable: a.Expandable, Pieces: a.pieces()}
}

// pieces divides an area into blocks and what lies between them.
func (a *area) pieces() (pieces []caching.Piece) {
	mapped := a.mapped
	if !a.Expandable {
		mapped = []span{{a.Addr, a.Addr + a.Bytes}}
	}
	at, blocks := a.Addr, a.blocks
	gap := func(to uint64, unmapped bool) {
		if to > at {
			pieces = append(pieces, caching.Piece{Addr: at, Bytes: to - at, Unmapped: unmapped})
			at = to
		}
	}
	for _, m := range mapped {
		gap(m.from, true)
		for len(blocks) > 0 && blocks[0].addr < m.to {
			gap(blocks[0].addr, false)
			pieces = append(pieces, caching.Piece{Addr: at, Bytes: blocks[0].bytes, Allocated: true,
				Waiting: blocks[0].waiting})
			at += blocks[0].bytes
			blocks = blocks[1:]
		}
		gap(m.to, false)
	}
	gap(a.Addr+a.Bytes, true)
	return pieces
}

func (r *replay) step(number int, e trace.Event) error {
	switch e.Action {
	case trace.SegmentAlloc, trace.SegmentFree, trace.SegmentMap, trace.SegmentUnmap:
		r.device.add(numbered{e, number})
		return nil
	case trace.Allocate:
		return r.allocate(number, e)
	}
	r.release()
	if _, left := r.device.next(); left && e.Action == trace.Free {
		r.releaseFor(number)
	}
	if r.left() {
		return nil
	}
	switch e.Action {
	case trace.FreeRequested, trace.Free:
		if b := r.live[e.Addr]; b != nil && b.Stream() != e.Stream {
			r.verdict.differs("event %d: the block at %#x is freed on stream %#x, and it is of stream %#x", number,
				e.Addr, e.Stream, b.Stream())
			return nil
		}
	}
	switch e.Action {
	case trace.FreeRequested:
		r.model.FreeLater(r.live[e.Addr])
	case trace.Free:
		r.model.Free(r.live[e.Addr])
		delete(r.live, e.Addr)
		delete(r.unsure, e.Addr)
	}
	return nil
}

func (r *replay) allocate(number int, e trace.Event) error {
	if r.live[e.Addr] != nil {
		return inconsistentf("event %d: the block at %#x is allocated twice", number, e.Addr)
	}
	released := r.release()
	request := caching.Request{Bytes: e.Bytes, Stream: e.Stream, Pool: r.pool(number, e)}
	r.device.stream = e.Stream
	_, changed := r.device.next()
	if number == 1 && !changed && r.model.Fit(request) != e.Addr && r.first(e) {
		return nil
	}
	allocate := r.model.Allocate
	if released && changed {
		// PyTorch looks for a free block before it waits for other streams and releases, not again afterwards.
		allocate = r.model.AllocateNew
	}
	block, err := allocate(request)
	count := &r.verdict.SameAddress
	for err == nil && block.Addr != e.Addr && r.undetermined(block, e, request) {
		count = &r.verdict.Undetermined
		block, err = allocate(request)
	}
	switch {
	case err != nil:
		r.verdict.differs("event %d: PyTorch allocated %d bytes at %#x, and the model needs a segment for them", number,
			e.Bytes, e.Addr)
	case block.Addr != e.Addr:
		r.verdict.differs("event %d: PyTorch allocated %d bytes at %#x, and the model at %#x", number, e.Bytes,
			e.Addr, block.Addr)
	case r.left():
	default:
		*count++
		r.live[e.Addr] = block
		r.model.Learn(block)
	}
	return nil
}

// first handles an allocation that begins the record: if PyTorch took a segment for it, that event is lost, and the
// segment looks like a cached one. It reports false if the allocation is not one of those.
func (r *replay) first(e trace.Event) bool {
	block, err := r.model.AllocateIn(e.Addr, e.Bytes)
	if err != nil {
		return false
	}
	r.verdict.Undetermined++
	r.live[e.Addr] = block
	return true
}

// undetermined handles a block that the model took although PyTorch took another. If the record does not have what
// decided, it corrects the model and reports true: the request is tried again.
func (r *replay) undetermined(block *caching.Block, e trace.Event, request caching.Request) bool {
	whole := block.Bytes + block.FreeAfter() // what the free block had
	if before := block.Before(); before != nil {
		// The block before it may be larger, and the free block too small.
		excess := whole - r.settings.Round(e.Bytes) + 512
		if excess <= r.unsure[before.Addr] {
			r.unsure[before.Addr] -= excess
			r.model.Free(block)
			r.model.Extend(before, before.Bytes+excess)
			return true
		}
	}
	if !r.tiesByAge {
		return false
	}
	// Of two segments that are older than the record, the other one may be the older.
	addr := block.Addr
	r.model.Free(block)
	return r.model.Older(request, e.Addr, addr)
}

// left reports whether PyTorch changed a segment that the model did not change, which is a difference.
func (r *replay) left() bool {
	e, left := r.device.next()
	if left {
		r.verdict.differs("event %d: PyTorch changed the segment at %#x, and the model does not", e.number, e.Addr)
	}
	return left
}

// release does what torch.cuda.empty_cache(), or an allocation for which the device had no memory, did in the record.
// It reports whether it released everything.
func (r *replay) release() bool {
	var frees []numbered
	for _, e := range r.device.pending {
		if e.number > 0 && (e.Action == trace.SegmentFree || e.Action == trace.SegmentUnmap) {
			frees = append(frees, e)
		}
	}
	if len(frees) == 0 {
		return false
	}
	if all := r.model.Releasable(); sameRanges(all, frees) {
		r.model.ReleaseCached()
		return true
	}
	for _, e := range frees {
		// The segments of a private pool are released when its graphs are gone, and garbage is collected by a limit and
		// by ages: neither is in the record.
		byAge := r.settings.GarbageThreshold > 0 && e.Action == trace.SegmentFree
		if byAge || r.pool(e.number, e.Event) != (caching.PoolID{}) {
			if !r.model.ReleaseAt(e.Addr) {
				r.verdict.differs("event %d: PyTorch released the segment at %#x, which has allocated blocks in the "+
					"model", e.number, e.Addr)
				return false
			}
		}
	}
	return false
}

// releaseFor releases blocks that may not be split for the next request: when that is not enough, PyTorch waits for
// other streams and then releases everything.
func (r *replay) releaseFor(number int) {
	for i, e := range r.gpu.Events[number:] {
		if e.Action == trace.Allocate || e.Action == trace.AllocateFailure {
			r.model.ReleaseOversize(caching.Request{Bytes: e.Bytes, Stream: e.Stream, Pool: r.pool(number+i+1, e)})
			return
		}
	}
}

// sameRanges reports whether the events name just these ranges.
func sameRanges(ranges []caching.Range, events []numbered) bool {
	if len(ranges) != len(events) {
		return false
	}
	wanted := map[caching.Range]bool{}
	for _, r := range ranges {
		wanted[r] = true
	}
	for _, e := range events {
		if !wanted[caching.Range{Addr: e.Addr, Bytes: e.Bytes}] {
			return false
		}
	}
	return true
}

// poolsOf returns what names the pool of an event: the recorded one or, if the snapshot names none, that of the segment
// at its address. Segments that were released before the end are those of the default pool: a private pool, such as
// that of a CUDA graph, keeps its segments for as long as it is there.
func poolsOf(gpu trace.GPUHistory) func(number int, e trace.Event) caching.PoolID {
	if gpu.Pools != nil {
		return func(number int, _ trace.Event) caching.PoolID { return gpu.Pools[number-1] }
	}
	segments := slices.SortedFunc(slices.Values(gpu.Segments),
		func(a, b trace.Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	gpu.Segments = segments
	eventOfSegment := takenAt(gpu)
	return func(number int, e trace.Event) caching.PoolID {
		i, there := slices.BinarySearchFunc(segments, e.Addr,
			func(s trace.Segment, addr uint64) int { return cmp.Compare(s.Addr, addr) })
		if !there {
			i--
		}
		if i < 0 || e.Addr-segments[i].Addr >= segments[i].Bytes || number < eventOfSegment[i] {
			return caching.PoolID{}
		}
		return segments[i].Pool
	}
}

// end compares the model's state with the recorded one.
func (r *replay) end() error {
	r.release()
	if r.left() {
		return nil
	}
	segments := r.model.Segments()
	for _, s := range r.gpu.Segments {
		i, found := slices.BinarySearchFunc(segments, s.Addr,
			func(m caching.Segment, addr uint64) int { return cmp.Compare(m.Addr, addr) })
		if !found {
			i--
		}
		if i >= 0 && segments[i].Stream != s.Stream {
			r.verdict.differs("at the end, the segment at %#x is of stream %#x, and of stream %#x in the model", s.Addr,
				s.Stream, segments[i].Stream)
		}
		for _, b := range s.Blocks {
			if !b.Held {
				continue
			}
			if got := r.live[b.Addr]; got.Bytes != b.Bytes {
				r.verdict.differs("at the end, the block at %#x has %d bytes, and %d in the model", b.Addr,
					b.Bytes, got.Bytes)
			}
		}
	}
	return nil
}

// Verdict compares a replay with the record. The counts are of all GPUs.
type Verdict struct {
	Allocations  int    `json:"allocations"`   // allocations in the record
	SameAddress  int    `json:"same_address"`  // those that the replay placed at the address in the record
	Undetermined int    `json:"undetermined"`  // those that depend on what is not in the record; not in SameAddress
	Segments     int    `json:"segments"`      // events in the record that take, release, map or unmap segments
	SameSegments int    `json:"same_segments"` // those that the model did, too
	Difference   string `json:"-"`             // what differs first; "": nothing
}

// Same reports whether everything that the record determines is the same.
func (v *Verdict) Same() bool { return v.Difference == "" }

// differs records the first difference.
func (v *Verdict) differs(format string, args ...any) {
	if v.Difference == "" {
		v.Difference = fmt.Sprintf(format, args...)
	}
}

// inconsistent is the error of a record that contradicts itself.
type inconsistent string

func (e inconsistent) Error() string { return string(e) }

func inconsistentf(format string, args ...any) error {
	return inconsistent(fmt.Sprintf(format, args...))
}
