// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/pool/chunks"
)

// markEveryBytes is how much is freed on a stream before a mark is queued although no request needs its memory now.
const markEveryBytes = 64 << 20

// tag records which streams' work may still touch a chunk. Tags are in a table beside the chunks, with the same
// indexes. It exists in shared mode only, so a single stream does not pay for it.
type tag struct {
	mark uint64 // free or held: any stream may use the memory once stream has passed it
	// stream of a live or held chunk is that of the allocation. That of a free one is the owner, which may take it at
	// once, or clean: any stream may.
	stream Stream
	links         // free and not clean: in the stream's queue
	uses   uint32 // live or held: other streams that use it; head of a list in Allocator.uses, or None
}

// use says that a stream uses a block allocated on another one: of a live block since RecordStream, of a held one
// until the stream has passed mark (invariant 14).
type use struct {
	mark   uint64
	chunk  uint32
	stream Stream
	next   uint32 // of the same chunk; in an unused record the next unused one
	links         // held: in the stream's queue
}

// homeLocked returns the bins for free chunks that stream s owns (invariant 5).
func (a *Allocator) homeLocked(s Stream) *chunks.Bins {
	switch {
	case !a.shared:
		return &a.bins
	case s == clean:
		return a.cleanBins
	default:
		return a.streams[s].bins
	}
}

// listLocked adds a free chunk that is in no bins to the clean bins, or in single mode to the only bins. It does not
// merge neighbors.
func (a *Allocator) listLocked(i uint32) {
	if !a.shared {
		a.bins.Insert(i)
		return
	}
	a.tags[i] = tag{stream: clean}
	a.cleanBins.Insert(i)
	a.cleanBytes += a.chunks.Records[i].Bytes()
}

// unlistLocked removes a free chunk from its bins and its queue (invariants 5 and 13).
func (a *Allocator) unlistLocked(i uint32) {
	if !a.shared {
		a.bins.Remove(i)
		return
	}
	bytes, s := a.chunks.Records[i].Bytes(), a.tags[i].stream
	if s == clean {
		a.cleanBins.Remove(i)
		a.cleanBytes -= bytes
		return
	}
	st := &a.streams[s]
	st.bins.Remove(i)
	st.freeBytes -= bytes
	drop(&st.owned, a.tags, i)
}

// idleLocked reports whether a chunk is free and no queued work touches it. In single mode the caller must make sure
// of the latter.
func (a *Allocator) idleLocked(i uint32) bool {
	return a.chunks.Records[i].Free() && (!a.shared || a.tags[i].stream == clean)
}

// ownLocked makes a chunk free memory of a stream; other streams may take it once the stream has passed mark. The
// chunk is free and in no bins. Queues are ordered by mark (invariant 13), so a chunk that comes late may get a later
// mark than it needs. It returns the chunk that results from merging.
func (a *Allocator) ownLocked(i uint32, s Stream, mark uint64) uint32 {
	st := &a.streams[s]
	if st.owned.newest != chunks.None {
		mark = max(mark, a.tags[st.owned.newest].mark)
	}
	i = a.absorbLocked(i, s)
	a.tags[i] = tag{stream: s, mark: mark}
	push(&st.owned, a.tags, i)
	st.bins.Insert(i)
	st.freeBytes += a.chunks.Records[i].Bytes()
	return i
}

// cleanLocked makes a chunk clean memory. The chunk is free and in no bins. It returns the chunk that results from
// merging.
func (a *Allocator) cleanLocked(i uint32) uint32 {
	i = a.absorbLocked(i, clean)
	a.listLocked(i)
	return i
}

// absorbLocked merges chunk i with free neighbors of the same stream (invariant 4), and returns the chunk that
// results.
func (a *Allocator) absorbLocked(i uint32, s Stream) uint32 {
	records := a.chunks.Records
	if above := records[i].Next; records[above].Free() && a.tags[above].stream == s {
		a.unlistLocked(above)
		a.chunks.Absorb(i, above)
	}
	if below := records[i].Prev; below != chunks.None && records[below].Free() && a.tags[below].stream == s {
		a.unlistLocked(below)
		a.chunks.Absorb(below, i)
		i = below
	}
	return i
}

// takeSharedLocked makes free chunk i a block of stream s: free -> live. A rest that is split off keeps the chunk's
// owner, mark and position in the queue (invariant 13).
func (a *Allocator) takeSharedLocked(i uint32, s Stream, bytes, rounded uint64, by holder.ID) Block {
	was := a.tags[i]
	home := a.homeLocked(was.stream)
	home.Remove(i)
	have := a.chunks.Records[i].Bytes()
	if !a.split.splits(have, rounded) {
		rounded = have
	}
	if was.stream == clean {
		a.cleanBytes -= rounded
	} else {
		a.streams[was.stream].freeBytes -= rounded
	}
	if have > rounded {
		rest := a.chunks.SplitOff(i, rounded)
		home.Insert(rest)
		a.tags[rest] = was
		if was.stream != clean {
			replace(&a.streams[was.stream].owned, a.tags, i, rest)
		}
	} else if was.stream != clean {
		drop(&a.streams[was.stream].owned, a.tags, i)
	}
	a.tags[i] = tag{stream: s}
	a.streams[s].refs++
	return a.handOutLocked(i, s, bytes, by)
}

// freeSharedLocked frees the block at a position of the index: live -> free, or held if other streams use it
// (invariant 14).
func (a *Allocator) freeSharedLocked(at int) {
	i := a.index.Remove(at)
	c, t := &a.chunks.Records[i], &a.tags[i]
	by := c.Holder()
	a.stats.freed(c.Bytes(), a.chunks.Requested(i))
	a.rows[by].freed(c.Bytes())
	a.publishFreedLocked(by, c.Bytes())
	bytes, s, first := c.Bytes(), t.stream, t.uses
	st := &a.streams[s]
	if first == chunks.None {
		c.Release()
		st.refs--
		a.ownLocked(i, s, st.nextMark())
	} else {
		c.Hold()
		t.mark = st.nextMark()
		for u := first; u != chunks.None; u = a.uses[u].next {
			a.awaitLocked(u)
		}
		for u := first; u != chunks.None; u = a.uses[u].next {
			a.countFreedLocked(a.uses[u].stream, bytes)
		}
	}
	a.countFreedLocked(s, bytes)
}

// countFreedLocked queues a mark if enough was freed on the stream since the last one. If that fails, the next mark
// covers both. Once as much as the limit was marked and every request was still served at once, more marks would be in
// vain: none is queued until a request is not (withoutWaitLocked). A stream that may have been destroyed gets its mark
// with the next call that names it.
func (a *Allocator) countFreedLocked(s Stream, bytes uint64) {
	a.streams[s].sinceMark += bytes
	a.markIfWorthLocked(s)
}

func (a *Allocator) markIfWorthLocked(s Stream) {
	st := &a.streams[s]
	if st.sinceMark >= markEveryBytes && st.state == open && a.calm < a.limitBytes && a.existsLocked(s) {
		a.calm += st.sinceMark
		_ = a.queueMarkLocked(s)
	}
}

// awaitLocked makes a held chunk wait for one of its uses.
func (a *Allocator) awaitLocked(u uint32) {
	n := &a.uses[u]
	st := &a.streams[n.stream]
	n.mark = st.nextMark()
	push(&st.awaited, a.uses, u)
}

// dropUseLocked removes a use of a held chunk from its queue and its chunk.
func (a *Allocator) dropUseLocked(u uint32) {
	drop(&a.streams[a.uses[u].stream].awaited, a.uses, u)
	a.forgetUseLocked(u)
}

// forgetUseLocked removes a use, which is in no queue, from its chunk.
func (a *Allocator) forgetUseLocked(u uint32) {
	n := a.uses[u]
	for link := &a.tags[n.chunk].uses; ; link = &a.uses[*link].next {
		if *link == u {
			*link = n.next
			break
		}
	}
	a.streams[n.stream].refs--
	a.uses[u] = use{next: a.uses[chunks.None].next}
	a.uses[chunks.None].next = u
}

// addUseLocked adds a use of live chunk i by a stream, unless there is one (invariants 14 and 16).
func (a *Allocator) addUseLocked(i uint32, s Stream) {
	t := &a.tags[i]
	if owner := &a.streams[t.stream]; t.stream == s || owner.state == private && owner.of == s {
		return
	}
	for u := t.uses; u != chunks.None; u = a.uses[u].next {
		if a.uses[u].stream == s {
			return
		}
	}
	u := a.uses[chunks.None].next // the list of unused records
	if u == chunks.None {
		u = uint32(len(a.uses))
		a.uses = append(a.uses, use{})
	} else {
		a.uses[chunks.None].next = a.uses[u].next
	}
	a.uses[u] = use{chunk: i, stream: s, next: t.uses}
	t.uses = u
	a.streams[s].refs++
}

// RecordStream declares that work of a stream, other than the one the block was allocated on, uses the block. Once
// the block is freed, no other stream gets its memory until that work is done.
func (a *Allocator) RecordStream(addr uint64, s Stream) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr == 0 && !a.closed {
		return a.checkStreamLocked(s)
	}
	_, err := a.recordLocked(addr, s)
	return err
}

// FreeOn is RecordStream followed by Free: the last work that uses the block is queued in stream s.
func (a *Allocator) FreeOn(addr uint64, s Stream) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr == 0 && !a.closed {
		return a.checkStreamLocked(s)
	}
	at, err := a.recordLocked(addr, s)
	if err != nil {
		return err
	}
	a.named = s
	a.freeLocked(at, s)
	a.named = noStream
	return nil
}

// recordLocked adds a use by stream s, and returns the block's position in the index.
func (a *Allocator) recordLocked(addr uint64, s Stream) (at int, err error) {
	if at, err = a.findLocked(addr); err != nil || s == a.only {
		return at, err
	}
	if err := a.admitLocked(s); err != nil {
		return 0, err
	}
	a.addUseLocked(a.index.At(at), s)
	return at, nil
}
