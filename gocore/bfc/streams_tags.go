package bfc

import "gpuconf/gocore/chunks"

// markEveryBytes is how much is freed on a stream before it is marked though nobody asked for its memory.
const markEveryBytes = 64 << 20

// tag says which streams' work may still touch a chunk. Tags have a table beside the chunks', by the same numbers, which
// is there in shared mode only: one stream pays nothing for them.
type tag struct {
	mark   uint64 // free or held: the memory is anybody's once the stream has passed it
	stream Stream // live or held: that of the allocation; free: the one that may have it at once; clean: any may
	links         // free and not clean: in the stream's queue
	uses   uint32 // live or held: other streams that use it; first of a list in Allocator.uses, or none
}

// use is one other stream that uses a block: of a live one since RecordStream, of a held one until the stream has passed mark.
type use struct {
	mark   uint64
	chunk  uint32
	stream Stream
	next   uint32 // of the same chunk; in an unused record the next unused one
	links         // held: in the stream's queue
}

// homeLocked gives the bins that a free chunk hangs in.
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

// listLocked puts a chunk that is free and nobody's into its bins. Where it lies beside others, they are not joined.
func (a *Allocator) listLocked(i uint32) {
	if !a.shared {
		a.bins.Insert(i)
		return
	}
	a.tags[i] = tag{stream: clean}
	a.cleanBins.Insert(i)
	a.cleanBytes += a.chunks.Records[i].Bytes
}

// unlistLocked takes a free chunk out of its bins and its queue.
func (a *Allocator) unlistLocked(i uint32) {
	if !a.shared {
		a.bins.Remove(i)
		return
	}
	bytes, s := a.chunks.Records[i].Bytes, a.tags[i].stream
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

// idleLocked reports whether a chunk is free and no queued work touches it. In single mode that is the caller's to know.
func (a *Allocator) idleLocked(i uint32) bool {
	return a.chunks.Records[i].Free() && (!a.shared || a.tags[i].stream == clean)
}

// ownLocked makes a chunk the free memory of a stream, for the others once it has passed mark. The chunk is free and in no bins. Queues are in
// the order of marks, so a chunk that comes late may get a later mark than it needs. It gives what has become of the chunk.
func (a *Allocator) ownLocked(i uint32, s Stream, mark uint64) uint32 {
	st := &a.streams[s]
	if st.owned.newest != chunks.None {
		mark = max(mark, a.tags[st.owned.newest].mark)
	}
	i = a.absorbLocked(i, s)
	a.tags[i] = tag{stream: s, mark: mark}
	push(&st.owned, a.tags, i)
	st.bins.Insert(i)
	st.freeBytes += a.chunks.Records[i].Bytes
	return i
}

// cleanLocked makes a chunk free memory for anybody. It is free and in no bins. It gives what has become of the chunk.
func (a *Allocator) cleanLocked(i uint32) uint32 {
	i = a.absorbLocked(i, clean)
	a.listLocked(i)
	return i
}

// absorbLocked joins free neighbours that belong to the same stream, and gives what has become of chunk i.
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

// takeSharedLocked makes free chunk i a block of stream s: free -> live. What is split off stays what the chunk was, queue included.
func (a *Allocator) takeSharedLocked(i uint32, s Stream, bytes, rounded uint64) Block {
	was := a.tags[i]
	home := a.homeLocked(was.stream)
	home.Remove(i)
	have := a.chunks.Records[i].Bytes
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
	return a.handOutLocked(i, s, bytes)
}

// freeSharedLocked ends the block at a position of the index: live -> free, or held if other streams use it.
func (a *Allocator) freeSharedLocked(at int) {
	i := a.index.Remove(at)
	c, t := &a.chunks.Records[i], &a.tags[i]
	a.stats.freed(c.Bytes, c.Requested)
	bytes, s, first := c.Bytes, t.stream, t.uses
	st := &a.streams[s]
	if first == chunks.None {
		c.Requested = 0
		st.refs--
		a.ownLocked(i, s, st.nextMark())
	} else {
		c.Requested = chunks.HeldMark
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

// countFreedLocked marks the stream if much was freed since it was last marked. Should that fail, the next mark does for both.
func (a *Allocator) countFreedLocked(s Stream, bytes uint64) {
	st := &a.streams[s]
	if st.sinceMark += bytes; st.sinceMark >= markEveryBytes && st.state == open {
		_ = a.markLocked(s)
	}
}

// awaitLocked begins the wait of a held chunk for one of its uses.
func (a *Allocator) awaitLocked(u uint32) {
	n := &a.uses[u]
	st := &a.streams[n.stream]
	n.mark = st.nextMark()
	push(&st.awaited, a.uses, u)
}

// dropUseLocked ends the wait for a use.
func (a *Allocator) dropUseLocked(u uint32) {
	drop(&a.streams[a.uses[u].stream].awaited, a.uses, u)
	a.forgetUseLocked(u)
}

// forgetUseLocked takes a use off its chunk. It is in no queue.
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

// addUseLocked notes that a stream uses live chunk i, unless it is known.
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

// RecordStream says that work of a stream, other than the one that the block was allocated on, uses the block. Once it is freed, nobody gets
// its memory before that work is done.
func (a *Allocator) RecordStream(addr uint64, s Stream) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr == 0 && !a.closed {
		return a.checkStreamLocked(s)
	}
	_, err := a.recordLocked(addr, s)
	return err
}

// FreeOn is RecordStream and Free in one: the last work that uses the block is queued in stream s.
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
	a.freeLocked(at, s)
	return nil
}

// recordLocked gives the block's position in the index too.
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
