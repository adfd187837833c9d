package main

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"gpuconf/gocore/offheap"
)

// floor is what the parts of an operation that no allocator avoids take on this machine, in ns.
type floor struct {
	LockNanos float64      `json:"lock_ns"` // a lock and an unlock of a mutex that no other thread uses
	Reads     []readFloor  `json:"reads"`
	Million   millionFloor `json:"million"`
}

// readFloor is the time of one read at a random place of a table, where each read returns the place of the next one.
type readFloor struct {
	TableBytes int     `json:"table_bytes"`
	Nanos      float64 `json:"ns"`
}

// millionFloor is the time of the mutex and the far reads of an operation among a million blocks, and nothing else, in
// ns.
type millionFloor struct {
	Overlapping float64 `json:"overlapping_ns"` // the next operation's address is known before
	Ordered     float64 `json:"ordered_ns"`     // it depends on what was read
}

// tableSizes are of tables that fit into the first, the second and the third level of a cache, and of those of a
// million live blocks.
var tableSizes = []int{32 << 10, 512 << 10, 8 << 20, 64 << 20}

func (b *bench) floor() error {
	b.result.Floor.LockNanos = best(b.rounds, lockNanos)
	for _, bytes := range tableSizes {
		lines, err := offheap.Map[cacheLine]("a benchmark's table", bytes/lineBytes)
		if err != nil {
			return err
		}
		shuffle(lines)
		b.result.Floor.Reads = append(b.result.Floor.Reads,
			readFloor{bytes, best(b.rounds, func() float64 { return readNanos(lines) })})
		if err := offheap.Unmap(lines); err != nil {
			return err
		}
	}
	var err error
	b.result.Floor.Million, err = million(b.rounds)
	b.progress("locks and reads")
	return err
}

func best(rounds int, measure func() float64) (ns float64) {
	ns = measure()
	for range rounds - 1 {
		ns = min(ns, measure())
	}
	return ns
}

const steps = 1_000_000

func lockNanos() float64 {
	var mu sync.Mutex
	start := time.Since(origin)
	for range steps {
		mu.Lock()
		mu.Unlock()
	}
	return float64(time.Since(origin)-start) / steps
}

const lineBytes = 64

// cacheLine holds the number of the next line.
type cacheLine [lineBytes / 8]uint64

// shuffle links the lines to one circle in random order (Sattolo's algorithm).
func shuffle(lines []cacheLine) {
	random := rand.New(rand.NewPCG(1, 0))
	for i := range lines {
		lines[i][0] = uint64(i)
	}
	for i := len(lines) - 1; i > 0; i-- {
		j := random.IntN(i)
		lines[i][0], lines[j][0] = lines[j][0], lines[i][0]
	}
}

// lastRead keeps the compiler from leaving the reads out.
var lastRead uint64

func readNanos(lines []cacheLine) float64 {
	at := lastRead % uint64(len(lines))
	start := time.Since(origin)
	for range steps {
		at = lines[at][0]
	}
	took := time.Since(origin) - start
	lastRead = at
	return float64(took) / steps
}

// The tables of a million live blocks: an index of addresses that is half full, and a record for each block and each
// hole.
const (
	floorSlots   = 1 << 21
	floorRecords = 1_300_000
	floorHeads   = 4_096 // sizes, and so lists, whose first holes are in a near cache
)

// floorRecord is as large as a chunk's record.
type floorRecord struct{ below, above, home, read uint64 }

// million measures what any allocator with these tables does for a free and an allocation, without decisions and lists.
func million(rounds int) (floor millionFloor, err error) {
	slots, err := offheap.Map[uint64]("a benchmark's table", floorSlots)
	if err != nil {
		return floor, err
	}
	records, err := offheap.Map[floorRecord]("a benchmark's table", floorRecords)
	if err != nil {
		return floor, errors.Join(err, offheap.Unmap(slots))
	}
	random := rand.New(rand.NewPCG(2, 0))
	for i := range slots {
		slots[i] = random.Uint64N(floorRecords)
	}
	for i := range records {
		records[i] = floorRecord{random.Uint64N(floorRecords), random.Uint64N(floorRecords),
			random.Uint64N(floorSlots), 0}
	}
	floor.Overlapping = best(rounds, func() float64 { return pairNanos(slots, records, random, false) })
	floor.Ordered = best(rounds, func() float64 { return pairNanos(slots, records, random, true) })
	return floor, errors.Join(offheap.Unmap(slots), offheap.Unmap(records))
}

// pairNanos returns the time of half a pair. Where they are ordered, an address depends on what the pair before has
// read.
func pairNanos(slots []uint64, records []floorRecord, random *rand.Rand, ordered bool) float64 {
	var mu sync.Mutex
	var before uint64
	start := time.Since(origin)
	for range steps / 2 {
		address := random.Uint64N(floorSlots) ^ before
		mu.Lock() // a free: the slot, the record, and both neighbors at once
		r := &records[slots[address]]
		r.read = records[r.below].home ^ records[r.above].home
		if ordered {
			before = r.read >> 40 // 0, but it has to be waited for
		}
		mu.Unlock()
		mu.Lock() // an allocation: the first hole of a list, and the slot of its address
		hole := address % floorHeads
		slots[records[hole].home] = hole
		mu.Unlock()
	}
	return float64(time.Since(origin)-start) / steps
}
