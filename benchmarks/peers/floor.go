package main

import (
	"math/rand/v2"
	"sync"
	"time"

	"gpuconf/gocore/base/offheap"
)

// floor is what the parts of an operation that no allocator avoids take on this machine, in ns.
type floor struct {
	LockNanos float64     `json:"lock_ns"` // a lock and an unlock of a mutex that no other thread uses
	Reads     []readFloor `json:"reads"`
}

// readFloor is the time of one read at a random place of a table, where each read returns the place of the next one.
type readFloor struct {
	TableBytes int     `json:"table_bytes"`
	Nanos      float64 `json:"ns"`
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
	b.progress("locks and reads")
	return nil
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
