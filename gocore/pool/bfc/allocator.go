// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/invariants"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/pool/chunks"
	"gpuconf/gocore/pool/figures"
)

// Options configure an Allocator. The zero value splits exactly and keeps regions until Close.
type Options struct {
	Name           string    // in messages; "bfc" if empty
	Split          SplitRule // when the unneeded part of a chunk is split off
	GarbageCollect bool      // before failing, release idle memory if that makes room for a larger region

	// Timeline is required for more than one stream.
	Timeline Timeline
}

// Allocator allocates blocks from regions that it obtains from a sub-allocator. It owns the regions until Close. It
// is safe for concurrent use.
type Allocator struct {
	name       string       // immutable
	sub        SubAllocator // immutable; called with mu held
	mapper     Mapper       // immutable; sub if it is a Mapper, else nil
	space      space        // immutable; mapper's
	limitBytes uint64       // immutable
	split      splitter     // immutable
	collect    bool         // immutable
	timeline   Timeline     // immutable; nil: one stream only; called with mu held

	mu     sync.Mutex
	closed bool // guarded by mu, as are all fields below
	sealed bool // Allocate refuses
	// served is the only stream, whose allocations take the fast path. It is noOne if the allocator is closed or
	// sealed, if a Failure counts, and unless there is exactly one stream.
	served  uint64
	uncut   uint64       // free chunks of so many bytes may contain handles of several granules; neverSplit: none does
	regions []region     // sorted by address
	chunks  chunks.Table // every chunk of every region
	bins    chunks.Bins  // the free chunks, by size
	index   chunks.Index // the live chunks, by address
	lastID  uint64       // of the last allocation; 0 before the first one
	// stats lacks what Stats computes: NumAllocs, LiveBlocks, PeakBytesInUse, CapturedBytes, LargestFreeBlockBytes and
	// the spare memory in BytesReserved.
	stats   Stats
	totals  Totals        // without what Totals computes: Allocs, Regions
	cleared uint64        // lastID at the last ClearStats
	peaks   peaks         // of stats.BytesInUse
	live    *figures.Pool // where the figures are published; never nil
	rows    []row         // by holder.ID
	seen    []holder.ID   // the rows that were used since New
	open    measurements
	parts   []part      // always empty; its capacity is scratch space for stitching
	drained uint64      // in single mode, no region that begins above it has whole granules that are free
	ring    *trace.Ring // the running recording; nil: none
	failure *Failure    // counts allocations until it makes one fail; nil: none
	sites   []uint32    // by chunk; of live blocks, while a recording has stacks

	only       Stream       // the stream of all work so far; noStream: no work yet, or shared mode
	shared     bool         // shared mode (doc.go, Streams); the fields below are in use
	streams    []stream     // by number
	tags       []tag        // by chunk
	uses       []use        // record 0 is the head of the list of unused records
	cleanBins  *chunks.Bins // free chunks that no queued work touches
	cleanBytes uint64       // the sum of their sizes
	walked     uint64       // steps of the last walk over all chunks (mayWalkLocked)
	walkedID   uint64       // lastID at that walk
	calm       uint64       // bytes freed before marks, since a request was last not served at once (countFreedLocked)
	named      Stream       // the stream that the current call names; noStream: none
}

const noOne = math.MaxUint64

// Block is the result of Allocate. The zero Block is the result of a request for 0 bytes.
type Block struct {
	Addr  uint64 // the device address; 0 for a request for 0 bytes
	Bytes uint64 // of the chunk: at least the requested size
	ID    uint64 // counts allocations from 1; distinguishes this block from an earlier one at the same address
}

// New returns an allocator over sub. It reserves no memory until the first Allocate.
func New(sub SubAllocator, opts Options) (*Allocator, error) {
	if sub == nil {
		return nil, status.Errorf(status.InvalidArgument, "an allocator needs a sub-allocator")
	}
	a := &Allocator{name: opts.Name, sub: sub, limitBytes: sub.LimitBytes(), collect: opts.GarbageCollect,
		timeline: opts.Timeline, only: noStream, named: noStream, served: noOne, uncut: neverSplit,
		streams: make([]stream, 1),
		live:    new(figures.Pool)}
	if a.name == "" {
		a.name = "bfc"
	}
	a.stats.BytesLimit = a.limitBytes
	var err error
	if a.mapper, a.space, err = mapperOf(sub); err != nil {
		return nil, err
	}
	if a.split, err = newSplitter(opts.Split, a.limitBytes); err != nil {
		return nil, err
	}
	if err := a.mapTables(); err != nil {
		return nil, errors.Join(err, a.unmapTables())
	}
	return a, nil
}

func (a *Allocator) mapTables() (err error) {
	if a.chunks, err = chunks.NewTable(a.limitBytes, a.split.tensorFlow); err != nil {
		return err
	}
	if a.bins, err = chunks.NewBins(&a.chunks); err != nil {
		return err
	}
	a.index, err = chunks.NewIndex(a.chunks.Records)
	return err
}

func (a *Allocator) unmapTables() error {
	err := errors.Join(a.index.Unmap(), a.bins.Unmap(), a.chunks.Unmap(), a.unmapShared())
	a.index, a.bins, a.chunks = chunks.EmptyIndex(), chunks.Bins{}, chunks.Table{}
	return err
}

// Allocate is AllocateFor stream 0 and the zero holder.
func (a *Allocator) Allocate(bytes uint64) (Block, error) { return a.AllocateFor(0, bytes, 0) }

// AllocateFor returns the smallest free chunk that fits, and requests memory from the sub-allocator if there is none.
// A request for 0 bytes returns the zero Block and changes nothing. The block is for work on stream s: work of other
// streams that used its memory is done by then, or s was made to wait for it (invariant 17). It counts for the holder.
//
// If there is no memory, the error is an *OutOfMemory of kind ResourceExhausted. No block and no counter has changed,
// but wholly free regions may have been returned to the device.
func (a *Allocator) AllocateFor(s Stream, bytes uint64, by holder.ID) (Block, error) {
	a.mu.Lock()
	// The fast path, which most calls take. rounded is 0 if bytes is 0 or too large to round up.
	if rounded := (bytes + chunks.Granularity - 1) &^ (chunks.Granularity - 1); uint64(s) == a.served && rounded != 0 &&
		a.hasRoomLocked(by) {
		if i := a.bins.BestFit(rounded); i != chunks.None && a.chunks.Records[i].Bytes() < a.uncut {
			block := a.takeLocked(i, s, bytes, rounded, by)
			a.mu.Unlock() // not deferred (doc.go, Locks)
			return block, nil
		}
	}
	return a.allocateUnlocking(s, bytes, by)
}

// allocateUnlocking is allocateLocked, and unlocks.
func (a *Allocator) allocateUnlocking(s Stream, bytes uint64, by holder.ID) (Block, error) {
	defer a.mu.Unlock()
	return a.allocateLocked(s, bytes, by)
}

// allocateLocked is the general path: it checks everything that can prevent the allocation, and obtains memory if no
// free chunk fits.
func (a *Allocator) allocateLocked(s Stream, bytes uint64, by holder.ID) (Block, error) {
	if a.closed || a.sealed {
		return Block{}, a.errShut()
	}
	if bytes == 0 {
		return Block{}, nil
	}
	a.roomForHolderLocked(by)
	if s != a.only || s == noStream {
		if err := a.admitLocked(s); err != nil {
			return Block{}, a.failedLocked(s, bytes, by, err)
		}
	}
	if err := a.roomLocked(); err != nil {
		return Block{}, a.failedLocked(s, bytes, by, err)
	}
	rounded, ok := chunks.RoundUp(bytes)
	if !ok {
		return Block{}, a.failedLocked(s, bytes, by, a.outOfMemoryLocked(s, bytes, rounded, nil))
	}
	if a.dueLocked() {
		return Block{}, a.failedLocked(s, bytes, by, a.outOfMemoryLocked(s, bytes, rounded, errInjected))
	}
	if a.shared {
		return a.allocateSharedLocked(s, bytes, rounded, by)
	}
	i, refusal := a.fitLocked(rounded, s)
	if refusal == nil && a.chunks.Records[i].Bytes() >= a.uncut {
		if i = a.splitForLocked(i, rounded); i == chunks.None {
			i, refusal = a.fitLocked(rounded, s)
		}
	}
	if refusal != nil {
		return Block{}, a.failedLocked(s, bytes, by, a.outOfMemoryLocked(s, bytes, rounded, refusal))
	}
	return a.takeLocked(i, s, bytes, rounded, by), nil
}

// fitLocked returns the smallest free chunk that fits, while there is one stream. It obtains memory if there is none.
func (a *Allocator) fitLocked(rounded uint64, s Stream) (i uint32, refusal error) {
	if i = a.bins.BestFit(rounded); i != chunks.None {
		return i, nil
	}
	if refusal = a.growLocked(rounded, s); refusal != nil {
		refusal = a.makeRoomLocked(rounded, s, refusal)
	}
	a.publishReservedLocked()
	if refusal != nil {
		return chunks.None, refusal
	}
	return a.bins.BestFit(rounded), nil
}

// serveLocked updates served. It must be called after a change of closed, sealed, failure or only.
func (a *Allocator) serveLocked() {
	a.served = noOne
	if !a.closed && !a.sealed && a.failure == nil && a.only != noStream {
		a.served = uint64(a.only)
	}
}

// hasRoomLocked reports, without growing the tables, whether they have room for one block of a holder and the rest of a
// split chunk.
func (a *Allocator) hasRoomLocked(by holder.ID) bool {
	return a.index.HasRoom() && a.chunks.HasFresh() && int(by) < len(a.rows)
}

// roomLocked makes room in the tables for what one Allocate may add: a region's chunk and fence, the rest of a split
// chunk, and a block.
func (a *Allocator) roomLocked() error {
	if err := a.chunks.RoomFor(3); err != nil {
		return err
	}
	return a.index.RoomForOne()
}

// takeLocked makes free chunk i a block: free -> live. It splits the chunk as invariant 10 requires.
func (a *Allocator) takeLocked(i uint32, s Stream, bytes, rounded uint64, by holder.ID) Block {
	c := &a.chunks.Records[i]
	if invariants.Enabled && !(c.Free() && c.Bytes() >= rounded) {
		// The condition is outside of the call because the arguments of Check are allocated on the heap.
		invariants.Check(false, "chunk %d of %d bytes (free: %v) cannot serve %d", i, c.Bytes(), c.Free(), rounded)
	}
	switch have := c.Bytes(); {
	case !a.split.splits(have, rounded):
		a.bins.Remove(i)
	case a.bins.KeepsPlace(i, have-rounded):
		a.bins.Replace(i, a.chunks.SplitOff(i, rounded), have-rounded)
	default:
		a.bins.Remove(i)
		a.bins.Insert(a.chunks.SplitOff(i, rounded))
	}
	return a.handOutLocked(i, s, bytes, by)
}

// handOutLocked adds a new block to the index and to the counters (invariants 3, 7 and 9).
func (a *Allocator) handOutLocked(i uint32, s Stream, bytes uint64, by holder.ID) Block {
	c := &a.chunks.Records[i]
	a.lastID++
	a.chunks.Own(i, bytes, a.lastID, by)
	a.index.Insert(c.Addr(), i)
	a.totals.AllocatedBytes += c.Bytes()
	inUse := a.stats.allocated(c.Bytes(), bytes)
	a.publishAllocatedLocked(by, c.Bytes())
	if inUse > a.peaks.least {
		a.peaks.reach(inUse)
		a.publishPeakLocked()
	}
	if r := &a.rows[by]; r.allocated(c.Bytes()) > r.peaks.least {
		a.raiseRowLocked(by)
	}
	if a.ring != nil {
		a.recordAllocationLocked(i, s)
	}
	return Block{Addr: c.Addr(), Bytes: c.Bytes(), ID: a.lastID}
}

// Free frees the block that begins at addr. Freeing 0, the address of the zero Block, does nothing. Any other address
// that is not that of a live block is an InvalidArgument error, and nothing changes.
func (a *Allocator) Free(addr uint64) error {
	a.mu.Lock()
	at, ok := a.index.Find(addr)
	if !ok || a.shared {
		return a.freeUnlocking(addr, at, ok)
	}
	a.freeLocked(at, noStream)
	a.mu.Unlock() // not deferred (doc.go, Locks)
	return nil
}

// freeUnlocking is the rest of a Free that may fail or call the timeline. It unlocks.
func (a *Allocator) freeUnlocking(addr uint64, at int, ok bool) error {
	defer a.mu.Unlock()
	if ok {
		a.freeLocked(at, noStream)
		return nil
	}
	if addr == 0 && !a.closed {
		return nil
	}
	return a.errNotLiveLocked(addr)
}

// TryFreeID is FreeID for a caller that must not wait. If it would wait for another thread or call the driver, it does
// nothing and returns false.
func (a *Allocator) TryFreeID(addr, id uint64) (tried bool, err error) {
	if !a.mu.TryLock() {
		return false, nil
	}
	defer a.mu.Unlock()
	if a.shared { // a free may queue a mark in a stream
		return false, nil
	}
	return true, a.freeIDLocked(addr, id)
}

// FreeID is like Free, but frees the block at addr only if it is still the allocation with this id.
func (a *Allocator) FreeID(addr, id uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.freeIDLocked(addr, id)
}

func (a *Allocator) freeIDLocked(addr, id uint64) error {
	if addr == 0 && id == 0 && !a.closed {
		return nil
	}
	at, err := a.findLocked(addr)
	if err != nil {
		return err
	}
	if now := a.chunks.Records[a.index.At(at)].ID(); now != id&chunks.IDMask {
		return a.errOtherID(addr, now, id)
	}
	a.freeLocked(at, noStream)
	return nil
}

// findLocked returns a live block's position in the index.
func (a *Allocator) findLocked(addr uint64) (at int, err error) {
	at, ok := a.index.Find(addr)
	if !ok {
		return 0, a.errNotLiveLocked(addr)
	}
	return at, nil
}

// freeLocked frees the block at a position of the index and merges it with its free neighbors: live -> free. s is the
// stream of its last use, or noStream if the caller did not say.
func (a *Allocator) freeLocked(at int, s Stream) {
	if a.ring != nil {
		a.recordFreeLocked(at, s)
	}
	if a.shared {
		a.freeSharedLocked(at)
		return
	}
	i := a.index.Remove(at)
	c := &a.chunks.Records[i]
	by := c.Holder()
	a.stats.freed(c.Bytes(), a.chunks.Requested(i))
	a.rows[by].freed(c.Bytes())
	a.publishFreedLocked(by, c.Bytes())
	c.Release()
	a.drained = max(a.drained, c.Addr())
	a.joinLocked(i, c.Prev, c.Next)
	if a.index.Count() == 0 {
		a.startAnewLocked()
	}
}

// joinLocked adds chunk i, which has become free, to the bins, merged with its free neighbors (invariant 4).
func (a *Allocator) joinLocked(i, below, above uint32) {
	records := a.chunks.Records
	switch {
	case records[below].Free(): // record None is not free
		if records[above].Free() {
			a.bins.Remove(above)
			a.chunks.Absorb(i, above)
		}
		if a.bins.KeepsPlace(below, records[below].Bytes()+records[i].Bytes()) {
			a.chunks.Absorb(below, i)
			return
		}
		a.bins.Remove(below)
		a.chunks.Absorb(below, i)
		a.bins.Insert(below)
	case !records[above].Free():
		a.bins.Insert(i)
	case a.bins.KeepsPlace(above, records[i].Bytes()+records[above].Bytes()):
		a.bins.Replace(above, i, records[i].Bytes()+records[above].Bytes())
		a.chunks.Absorb(i, above)
	default:
		a.bins.Remove(above)
		a.chunks.Absorb(i, above)
		a.bins.Insert(i)
	}
}

// Size returns a live block's size and its requested size.
func (a *Allocator) Size(addr uint64) (chunkBytes, requestedBytes uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.index.Find(addr)
	if !ok {
		return 0, 0, false
	}
	i := a.index.At(at)
	return a.chunks.Records[i].Bytes(), a.chunks.Requested(i), true
}

// Close returns all regions, even with live blocks, and unmaps the tables. It first waits for everything queued in the
// allocator's streams, as far as the device can be waited for. Later calls fail with FailedPrecondition, except
// another Close, which does nothing. An error means that the sub-allocator did not take back some region.
func (a *Allocator) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.settleLocked()
	dropped := a.dropSpareLocked()
	a.closed = true
	a.serveLocked()
	regions := a.regions
	a.regions = nil
	for _, r := range regions {
		a.recordSegmentLocked(false, r.addr, r.bytes)
	}
	a.ring = nil
	notUnmapped := a.dropSitesLocked()
	a.rows, a.seen = nil, nil
	a.stats.BytesInUse, a.stats.RequestedBytesInUse, a.stats.BytesReserved = 0, 0, 0
	*a.live = figures.Pool{}
	a.live = new(figures.Pool)
	return errors.Join(a.unmapTables(), notUnmapped, a.releaseLocked(regions), dropped)
}

func (a *Allocator) errClosed() error {
	return status.Errorf(status.FailedPrecondition, "allocator %s is closed", a.name)
}

// ErrSealed is the error of an allocation while the allocator is sealed.
var ErrSealed = errors.New("the allocator is about to be closed")

// Seal makes new allocations fail with ErrSealed and returns the number of live blocks. Frees still work. It lets the
// owner of several allocators find out that all are idle, and close them, without a new block appearing in between;
// otherwise the owner calls Unseal.
func (a *Allocator) Seal() (liveBlocks uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sealed = true
	a.serveLocked()
	return uint64(a.index.Count())
}

// Unseal allows allocations again.
func (a *Allocator) Unseal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sealed = false
	a.serveLocked()
}

// errShut returns why no allocation is possible: closed or sealed.
func (a *Allocator) errShut() error {
	if a.closed {
		return a.errClosed()
	}
	return ErrSealed
}

// Failure makes the n-th allocation fail as if there were no memory, so that programs can test what they do then.
// Allocators that share a Failure count together. A request for 0 bytes does not count.
type Failure struct {
	n       uint64
	counted atomic.Uint64
}

// NewFailure returns a Failure of the n-th allocation from now on.
func NewFailure(n uint64) *Failure { return &Failure{n: n} }

// Counted returns the number of allocations so far. It stays at n when the n-th one has failed.
func (f *Failure) Counted() uint64 { return min(f.counted.Load(), f.n) }

// over reports whether the allocation that was to fail has failed.
func (f *Failure) over() bool { return f.counted.Load() >= f.n }

// Due counts an allocation and reports whether it must fail.
func (f *Failure) Due() bool { return !f.over() && f.counted.Add(1) == f.n }

// errInjected is the refusal of an allocation that a Failure made fail.
var errInjected = errors.New("injected")

// IsInjected reports whether an allocation failed because of a Failure.
func IsInjected(err error) bool { return errors.Is(err, errInjected) }

// Inject counts allocations with f from now on, and fails the one that is due. It replaces an earlier Failure; nil ends
// it. While an allocator counts, no allocation takes the fast path; otherwise this costs nothing.
func (a *Allocator) Inject(f *Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = f
	a.serveLocked()
}

// dueLocked counts an allocation and reports whether it must fail.
func (a *Allocator) dueLocked() bool {
	if a.failure == nil {
		return false
	}
	due := a.failure.Due()
	if a.failure.over() { // also if another allocator's allocation was the one
		a.failure = nil
		a.serveLocked()
	}
	return due
}
