// SPDX-License-Identifier: Apache-2.0

package chunks

import "gpuconf/gocore/base/offheap"

// Index finds a live chunk by its address: open addressing with linear probing, at most half full. While the table fits
// into a processor's nearest caches, it is kept emptier than that: most chunks are then in their home slots, and the
// processor predicts so.
//
// A slot's home is the leading bits of a 32-bit hash that is kept in the slot. So neither growing nor the backward
// shift that fills the hole of a removed slot reads the chunks, and a slot whose hash differs is skipped without
// reading its chunk.
type Index struct {
	slots   []slot // length is a power of two
	shift   uint32 // home = hash >> shift
	live    int
	most    int     // live chunks at which the table has to grow
	records []Chunk // the chunk table's
}

type slot struct {
	hash  uint32
	chunk uint32 // none: empty
}

const firstSlotBits = 10

// mostLive returns for how many chunks a table of a length has room.
func mostLive(slots int) int {
	switch {
	case slots <= 1<<13: // 64 KiB
		return slots / 8
	case slots <= 1<<15:
		return slots / 4
	default:
		return slots / 2
	}
}

// NewIndex makes an empty index over the records of a Table.
func NewIndex(records []Chunk) (Index, error) {
	slots, err := offheap.Map[slot](TableName, 1<<firstSlotBits)
	return Index{slots: slots, shift: 32 - firstSlotBits, most: mostLive(len(slots)), records: records}, err
}

// EmptyIndex has no table and no room. It stands in for an index whose table was unmapped.
func EmptyIndex() Index { return Index{slots: make([]slot, 1), shift: 32} }

// Unmap ends the table. The index must not be used afterwards.
func (x *Index) Unmap() error { return offheap.Unmap(x.slots) }

// hashOf is Fibonacci hashing: it spreads evenly spaced addresses.
func hashOf(addr uint64) uint32 {
	return uint32((addr >> granularityBits) * 0x9E3779B97F4A7C15 >> 32)
}

// Find returns the position of the live chunk that begins at addr.
func (x *Index) Find(addr uint64) (at int, ok bool) {
	hash := hashOf(addr)
	slots := x.slots
	for i := int(hash >> x.shift); ; i++ {
		s := slots[i&(len(slots)-1)]
		if s.chunk == None {
			return 0, false
		}
		if s.hash == hash && x.records[s.chunk].Addr() == addr {
			return i & (len(slots) - 1), true
		}
	}
}

// At returns the chunk at a position that Find returned.
func (x *Index) At(position int) uint32 { return x.slots[position].chunk }

// Count returns the number of chunks in the index.
func (x *Index) Count() int { return x.live }

// HasRoom reports whether one more chunk can be inserted without growing.
func (x *Index) HasRoom() bool { return x.live < x.most }

// Insert adds a chunk that is not in the index. RoomForOne was called.
func (x *Index) Insert(addr uint64, chunk uint32) {
	put(x.slots, x.shift, slot{hashOf(addr), chunk})
	x.live++
}

func put(slots []slot, shift uint32, s slot) {
	i := int(s.hash >> shift)
	for slots[i&(len(slots)-1)].chunk != None {
		i++
	}
	slots[i&(len(slots)-1)] = s
}

// Remove empties a position and returns the chunk that was there. It moves later slots back, so that no search ends at
// a hole before its goal.
func (x *Index) Remove(at int) (chunk uint32) {
	slots, mask := x.slots, len(x.slots)-1
	chunk = slots[at].chunk
	hole := at
	for i := (at + 1) & mask; slots[i].chunk != None; i = (i + 1) & mask {
		// Slot i may fill the hole unless its home lies between the two.
		if home := int(slots[i].hash >> x.shift); (i-home)&mask >= (i-hole)&mask {
			slots[hole] = slots[i]
			hole = i
		}
	}
	slots[hole] = slot{}
	x.live--
	return chunk
}

// RoomForOne makes sure that one more chunk can be inserted.
func (x *Index) RoomForOne() error {
	if x.HasRoom() {
		return nil
	}
	return x.grow()
}

// grow doubles the table at once. Slots lie almost in the order of their hashes, so both tables are walked in step, at
// about 2 ns a slot. Spreading that over later calls was not worth it.
func (x *Index) grow() error {
	slots, err := offheap.Map[slot](TableName, 2*len(x.slots))
	if err != nil {
		return err
	}
	offheap.Warm(slots, 0, len(slots))
	for _, s := range x.slots {
		if s.chunk != None {
			put(slots, x.shift-1, s)
		}
	}
	old := x.slots
	x.slots, x.shift, x.most = slots, x.shift-1, mostLive(len(slots))
	return offheap.Unmap(old)
}

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
