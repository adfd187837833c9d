// SPDX-License-Identifier: Apache-2.0

package bfc

import "gpuconf/gocore/pool/chunks"

// streams checks invariants 13 to 16.
func (c *checker) streams() error {
	a := c.a
	for s := range a.streams {
		st := &a.streams[s]
		if st.queued > st.marks || st.passed > st.marks || st.state == ended && st.queued != st.marks {
			return broken(15, "stream %d (state %d): %d marks tried, %d queued, %d passed", s, st.state, st.marks,
				st.queued, st.passed)
		}
		for other, mark := range st.follows {
			if mark > a.streams[other].queued {
				return broken(15, "stream %d waits for mark %d of stream %d, which has %d", s, mark, other,
					a.streams[other].queued)
			}
		}
	}
	if !a.shared {
		return nil
	}
	refs := make([]uint64, len(a.streams))
	for s := range a.streams {
		if st := &a.streams[s]; st.state == private {
			refs[st.of]++
		}
	}
	awaited, err := c.uses(refs)
	if err != nil {
		return err
	}
	for s := range a.streams {
		if a.streams[s].refs != refs[s] {
			return broken(16, "stream %d has %d chunks, uses and captures, the counter says %d", s, refs[s],
				a.streams[s].refs)
		}
		if err := c.owned(Stream(s)); err != nil {
			return err
		}
		n, err := c.awaited(Stream(s))
		if err != nil {
			return err
		}
		awaited -= n
	}
	if awaited != 0 {
		return broken(14, "%d uses of held chunks are in no queue", awaited)
	}
	return c.ownedByNobody()
}

// uses checks the lists of uses and counts the references to each stream. awaited is the number of uses of held chunks.
func (c *checker) uses(refs []uint64) (awaited int, err error) {
	a := c.a
	seen := make([]bool, len(a.uses))
	seen[chunks.None] = true
	note := func(u uint32) bool {
		fresh := int(u) < len(seen) && !seen[u]
		if fresh {
			seen[u] = true
		}
		return fresh
	}
	for i, state := range c.state {
		if state != inRegionLive && state != inRegionHeld {
			continue
		}
		t := &a.tags[i]
		refs[t.stream]++
		users := map[Stream]bool{t.stream: true}
		for u := t.uses; u != chunks.None; u = a.uses[u].next {
			if !note(u) || a.uses[u].chunk != uint32(i) || users[a.uses[u].stream] {
				return 0, broken(14, "use %d (%+v) of chunk %d of stream %d", u, a.uses[u], i, t.stream)
			}
			users[a.uses[u].stream] = true
			refs[a.uses[u].stream]++
			if state == inRegionHeld {
				awaited++
			}
		}
		if state == inRegionHeld && len(users) == 1 {
			return 0, broken(14, "held chunk %d has no uses", i)
		}
	}
	for u := a.uses[chunks.None].next; u != chunks.None; u = a.uses[u].next {
		if !note(u) {
			return 0, broken(14, "unused record %d is in use, or on the list twice", u)
		}
	}
	for u, ok := range seen {
		if !ok {
			return 0, broken(14, "use %d is in no list", u)
		}
	}
	return awaited, nil
}

// owned checks a stream's queue of free chunks against its bins.
func (c *checker) owned(s Stream) error {
	a, st := c.a, &c.a.streams[s]
	var bytes, mark uint64
	before := chunks.None
	for i := st.owned.oldest; i != chunks.None; i = a.tags[i].after {
		t := &a.tags[i]
		if c.state[i] != inClass || t.stream != s || t.before != before || t.mark < mark || t.mark > st.nextMark() {
			return broken(13, "chunk %d (%+v, state %d) in the queue of stream %d after %d, which waits for mark %d", i,
				*t, c.state[i], s, before, mark)
		}
		c.state[i] = inQueue
		bytes, mark, before = bytes+c.records[i].Bytes(), t.mark, i
	}
	if st.owned.newest != before || bytes != st.freeBytes {
		return broken(13, "the queue of stream %d ends with %d and has %d bytes; the counters say %d and %d", s, before,
			bytes, st.owned.newest, st.freeBytes)
	}
	return nil
}

// awaited checks a stream's queue of uses and returns its length.
func (c *checker) awaited(s Stream) (length int, err error) {
	a, st := c.a, &c.a.streams[s]
	var mark uint64
	before := chunks.None
	for u := st.awaited.oldest; u != chunks.None; u = a.uses[u].after {
		n := &a.uses[u]
		if c.state[n.chunk] != inRegionHeld || n.stream != s || n.before != before || n.mark < mark ||
			n.mark > st.nextMark() {
			return 0, broken(14, "use %d (%+v) in the queue of stream %d after %d, which waits for mark %d", u, *n, s,
				before, mark)
		}
		length, mark, before = length+1, n.mark, u
	}
	if st.awaited.newest != before {
		return 0, broken(14, "the queue of uses of stream %d ends with %d, not %d", s, before, st.awaited.newest)
	}
	return length, nil
}

// ownedByNobody checks that free chunks in no queue are clean.
func (c *checker) ownedByNobody() error {
	var bytes uint64
	for i, state := range c.state {
		if state != inClass {
			continue
		}
		if c.a.tags[i].stream != clean {
			return broken(13, "free chunk %d of stream %d is in no queue", i, c.a.tags[i].stream)
		}
		bytes += c.records[i].Bytes()
	}
	if bytes != c.a.cleanBytes {
		return broken(13, "%d bytes are clean, the counter says %d", bytes, c.a.cleanBytes)
	}
	return nil
}
