package bfc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
)

// smallWorld is a pool of three units on which two streams have worked.
func smallWorld(t *testing.T) *world {
	sub := suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: 3 * 256})
	w := newWorld(t, sub, bfc.Options{})
	one := w.newStream()
	for _, s := range []bfc.Stream{0, one} {
		_, err := w.allocate(s, 256)
		require.NoError(t, err)
	}
	return w
}

// A move changes a world, or reports that there is nothing to do.
type move func(*world) bool

func allocating(s bfc.Stream, units uint64) move {
	return func(w *world) bool {
		if _, err := w.allocate(s, units*256); err != nil {
			w.mustNotHaveHelped(units*256, err)
		}
		return true
	}
}

func freeing(newest bool) move {
	return func(w *world) bool {
		if len(w.live) == 0 {
			return false
		}
		at := 0
		if newest {
			at = len(w.live) - 1
		}
		w.free(at)
		return true
	}
}

// recording records that the stream that did not allocate the oldest block uses it.
func recording(w *world) bool {
	if len(w.live) == 0 || len(w.live[0].users) > 0 {
		return false
	}
	w.record(0, 1-w.live[0].stream)
	return true
}

func running(s bfc.Stream) move { return func(w *world) bool { return w.advance(s) } }

// Every program of five steps on a pool of three units.
func TestAllSmallPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	steps := []move{
		allocating(0, 1), allocating(0, 2), allocating(1, 1), allocating(1, 2), freeing(false), freeing(true),
		recording, running(0), running(1),
	}
	const depth = 5
	program := make([]int, depth)
	for {
		w := smallWorld(t)
		at := 0
		for at < depth && steps[program[at]](w) {
			at++
		}
		w.check()
		require.NoError(t, w.a.Close())
		at = min(at, depth-1) // the next program differs in the step that had no effect, or the last one
		for clear(program[at+1:]); at >= 0; at-- {
			if program[at]++; program[at] < len(steps) {
				break
			}
			program[at] = 0
		}
		if at < 0 {
			return
		}
	}
}

// Every interleaving of two threads, each with its own stream, and of the device's progress in both.
func TestAllInterleavings(t *testing.T) {
	freeOf := func(s bfc.Stream) move { // the oldest block of a stream
		return func(w *world) bool {
			for i, b := range w.live {
				if b.stream == s {
					w.free(i)
					break
				}
			}
			return true
		}
	}
	share := func(s bfc.Stream) move { // the other stream uses the stream's oldest block
		return func(w *world) bool {
			for i, b := range w.live {
				if b.stream == s {
					w.record(i, 1-s)
					break
				}
			}
			return true
		}
	}
	try := func(s bfc.Stream) move { return func(w *world) bool { w.advance(s); return true } }
	device := [][]move{{try(0)}, {try(1)}}
	tests := map[string][2][]move{
		"each frees and takes more than it had": {
			{freeOf(0), allocating(0, 2), freeOf(0)}, {freeOf(1), allocating(1, 2), freeOf(1)},
		},
		"both share what they free": {
			{share(0), freeOf(0), allocating(0, 2)}, {share(1), freeOf(1), allocating(1, 2)},
		},
		"one takes all": {
			{freeOf(0), allocating(0, 3), share(0)}, {freeOf(1), allocating(1, 1), freeOf(1)},
		},
	}
	for name, threads := range tests {
		t.Run(name, func(t *testing.T) {
			interleave(append(threads[:], device...), nil, func(program []move) {
				w := smallWorld(t)
				for _, do := range program {
					do(w)
				}
				w.check()
				require.NoError(t, w.a.Close())
			})
		})
	}
}

// interleave calls run with every merge of the sequences that keeps the order within each.
func interleave(sequences [][]move, before []move, run func([]move)) {
	done := true
	for i, rest := range sequences {
		if len(rest) == 0 {
			continue
		}
		done = false
		sequences[i] = rest[1:]
		interleave(sequences, append(before, rest[0]), run)
		sequences[i] = rest
	}
	if done {
		run(before)
	}
}
