// SPDX-License-Identifier: Apache-2.0

package chunks

import "gpuconf/gocore/base/status"

// broken names a broken invariant of the package comment by its number.
func broken(invariant int, format string, args ...any) error {
	return status.Errorf(status.Internal, "invariant %d of chunks is broken: %w", invariant,
		status.Errorf(status.Internal, format, args...))
}

// Check walks all classes, checks invariants 1 to 3, and calls visit for each chunk before it reads its record. It
// returns the first error, its own or visit's.
func (b *Bins) Check(visit func(i uint32) error) error {
	if err := b.t.nonEmpty.check(); err != nil {
		return err
	}
	c := binsCheck{b: b, visit: visit}
	for k := uint32(0); k < classCount; k++ {
		if k = b.t.nonEmpty.next(k); k == noClass {
			break
		}
		head := b.t.heads[k]
		if head == None {
			return broken(1, "class %d is marked but empty", k)
		}
		walk := c.list
		if b.heaps && exact(k) {
			walk = c.heap
		}
		if err := walk(k, head); err != nil {
			return err
		}
	}
	return nil
}

// binsCheck is one walk along the chunks of bins.
type binsCheck struct {
	b     *Bins
	visit func(i uint32) error
}

// check checks invariant 2.
func (b *bitmap) check() error {
	for i, w := range b.low {
		leaves := b.leaf[i<<6 : i<<6+64]
		var any uint64
		for _, leaf := range leaves {
			any |= leaf
		}
		for j, leaf := range leaves {
			if any|w == 0 {
				break // as most of them
			}
			if (leaf != 0) != (w>>j&1 != 0) {
				return broken(2, "leaf word %d is %#x, its bit says otherwise", i<<6+j, leaf)
			}
		}
		if (w != 0) != (b.top>>i&1 != 0) {
			return broken(2, "low word %d is %#x, its bit says otherwise", i, w)
		}
	}
	return nil
}

func (c *binsCheck) list(k, head uint32) error {
	before := None
	for i := head; i != None; i = c.b.records[i].binNext {
		if err := c.member(k, i, before); err != nil {
			return err
		}
		if before != None && !exact(k) && c.b.less(i, before) {
			return broken(3, "chunks %d and %d in the list of class %d are out of order", before, i, k)
		}
		before = i
	}
	return nil
}

// heap walks a heap; todo holds the chunks whose children have not been visited.
func (c *binsCheck) heap(k, root uint32) error {
	if err := c.member(k, root, None); err != nil {
		return err
	}
	for todo := []uint32{root}; len(todo) > 0; {
		parent := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		before := parent
		for i := c.b.heap.children[parent]; i != None; i = c.b.records[i].binNext {
			if err := c.member(k, i, before); err != nil {
				return err
			}
			if c.b.less(i, parent) {
				return broken(3, "chunk %d in the heap of class %d lies below its parent %d", i, k, parent)
			}
			before = i
			todo = append(todo, i)
		}
	}
	return nil
}

// member checks one chunk of class k that is linked behind before.
func (c *binsCheck) member(k, i, before uint32) error {
	if err := c.visit(i); err != nil {
		return err
	}
	if r := &c.b.records[i]; r.binPrev != before || class(r.bytes) != k {
		return broken(1, "chunk %d of %d bytes in class %d comes after %d, not %d", i, r.bytes, k, r.binPrev, before)
	}
	return nil
}

// Check checks invariant 4, and calls visit for each chunk in the index before it reads its record. It returns the
// first error, its own or visit's.
func (x *Index) Check(visit func(i uint32) error) error {
	occupied := 0
	for at, s := range x.slots {
		if s.chunk == None {
			continue
		}
		occupied++
		if err := visit(s.chunk); err != nil {
			return err
		}
		addr := x.records[s.chunk].Addr()
		if found, ok := x.Find(addr); !ok || found != at {
			return broken(4, "the chunk at %#x is in slot %d; looking for it gave %d, %v", addr, at, found, ok)
		}
	}
	if occupied != x.live || occupied > mostLive(len(x.slots)) {
		return broken(4, "%d of %d slots are held, %d counted", occupied, len(x.slots), x.live)
	}
	return nil
}

// EachRecycled calls visit for each record on the list of unused ones, before it reads the record. It returns visit's
// first error.
func (t *Table) EachRecycled(visit func(i uint32) error) error {
	for i := t.recycled; i != None; i = t.Records[i].Next {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}
