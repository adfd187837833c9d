// SPDX-License-Identifier: Apache-2.0

package chunks

// addressHeap orders the free chunks of one size by address, for the TensorFlow rule: a pairing heap for each class. A
// sorted list would do, but a program that frees many blocks of one size in random order would walk it at every step.
//
// In a heap, binNext is the next sibling, and binPrev the sibling before or, for the first child, the parent.
// insert is O(1); remove is O(log n) in the mean over many calls.
type addressHeap struct {
	records  []Chunk  // the chunk table's
	children []uint32 // by chunk: its first child; the Table's, nil but for the TensorFlow rule
}

// insert puts i into the heap under root (None: empty) and returns the new root.
func (h *addressHeap) insert(root, i uint32) uint32 {
	h.children[i] = None
	h.records[i].binPrev, h.records[i].binNext = None, None
	return h.meld(root, i)
}

// remove takes i out of the heap under root and returns the new root.
func (h *addressHeap) remove(root, i uint32) uint32 {
	below := h.combine(h.children[i])
	if i == root {
		return below
	}
	before, after := h.records[i].binPrev, h.records[i].binNext
	if h.children[before] == i {
		h.children[before] = after
	} else {
		h.records[before].binNext = after
	}
	if after != None {
		h.records[after].binPrev = before
	}
	return h.meld(root, below)
}

// meld joins two heaps and returns the root; either may be empty.
func (h *addressHeap) meld(x, y uint32) uint32 {
	if x == None || y == None {
		return x | y // the one that is not empty
	}
	if h.records[y].addr < h.records[x].addr {
		x, y = y, x
	}
	first := h.children[x]
	h.records[y].binPrev, h.records[y].binNext = x, first
	if first != None {
		h.records[first].binPrev = y
	}
	h.children[x] = y
	return x
}

// combine joins a chain of siblings into one heap: it melds them in pairs, and then the pairs from the last to the
// first.
func (h *addressHeap) combine(first uint32) (root uint32) {
	pairs := None // linked by binNext, last one first
	for first != None {
		x, y := first, h.records[first].binNext
		first = None
		if y != None {
			first = h.records[y].binNext
		}
		pair := h.meld(h.alone(x), h.alone(y))
		h.records[pair].binNext = pairs
		pairs = pair
	}
	for pairs != None {
		pair := pairs
		pairs = h.records[pair].binNext
		root = h.meld(root, h.alone(pair))
	}
	return root
}

// alone cuts i's links to parent and siblings.
func (h *addressHeap) alone(i uint32) uint32 {
	if i != None {
		h.records[i].binPrev, h.records[i].binNext = None, None
	}
	return i
}
