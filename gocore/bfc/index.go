package bfc

import "gpuconf/gocore/offheap"

// index finds a live chunk by its address: open addressing with linear probing, at most half full.
//
// A slot's home is the leading bits of a 32-bit hash that is kept in the slot. So growing, and the backward shift that fills the hole of a
// removed slot, need not look at the chunks; and a slot whose hash differs is passed over without a look at its chunk.
type index struct {
	slots   []slot // length is a power of two
	shift   uint32 // home = hash >> shift
	live    int
	most    int     // chunks that may be live before it has to grow
	records []chunk // the chunk table's
}

type slot struct {
	hash  uint32
	chunk uint32 // none: empty
}

const firstSlotBits = 10

func newIndex(records []chunk) (index, error) {
	slots, err := offheap.Map[slot](tableName, 1<<firstSlotBits)
	return index{slots: slots, shift: 32 - firstSlotBits, most: len(slots) / 2, records: records}, err
}

// emptyIndex has no memory of its own and no room: what is left after Close.
func emptyIndex() index { return index{slots: make([]slot, 1), shift: 32} }

// hashOf is Fibonacci hashing: it spreads evenly spaced addresses.
func hashOf(addr uint64) uint32 {
	return uint32((addr >> granularityBits) * 0x9E3779B97F4A7C15 >> 32)
}

// find gives the position of the live chunk that begins at addr.
func (x *index) find(addr uint64) (at int, ok bool) {
	hash := hashOf(addr)
	slots := x.slots
	for i := int(hash >> x.shift); ; i++ {
		s := slots[i&(len(slots)-1)]
		if s.chunk == none {
			return 0, false
		}
		if s.hash == hash && x.records[s.chunk].addr == addr {
			return i & (len(slots) - 1), true
		}
	}
}

// insert adds a chunk that is not there. roomForOne must have been called.
func (x *index) insert(addr uint64, chunk uint32) {
	put(x.slots, x.shift, slot{hashOf(addr), chunk})
	x.live++
}

func put(slots []slot, shift uint32, s slot) {
	i := int(s.hash >> shift)
	for slots[i&(len(slots)-1)].chunk != none {
		i++
	}
	slots[i&(len(slots)-1)] = s
}

// remove empties a position, tells whose it was, and moves later slots back, so that no search meets a hole before its goal.
func (x *index) remove(at int) (chunk uint32) {
	slots, mask := x.slots, len(x.slots)-1
	chunk = slots[at].chunk
	hole := at
	for i := (at + 1) & mask; slots[i].chunk != none; i = (i + 1) & mask {
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

// roomForOne makes sure that one more chunk can be inserted.
func (x *index) roomForOne() error {
	if x.live < x.most {
		return nil
	}
	return x.grow()
}

// grow doubles the table at once. Slots lie almost in the order of their hashes, so old and new table are gone through
// in step, about 2 ns a slot; it was not worth spreading over later calls.
func (x *index) grow() error {
	slots, err := offheap.Map[slot](tableName, 2*len(x.slots))
	if err != nil {
		return err
	}
	offheap.Warm(slots, 0, len(slots))
	for _, s := range x.slots {
		if s.chunk != none {
			put(slots, x.shift-1, s)
		}
	}
	old := x.slots
	x.slots, x.shift, x.most = slots, x.shift-1, len(slots)/2
	return offheap.Unmap(old)
}
