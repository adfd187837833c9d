package bfc_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
)

// A random program over several streams. Whatever the device does and whichever call fails, no stream gets memory that
// another one's work may still touch, and no request is refused that waiting would have served.
func TestStreamsAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, end := drawWorld(t)
		defer end()
		limit := w.a.Stats().BytesLimit
		streams := []bfc.Stream{0}
		stream := func() bfc.Stream { return rapid.SampledFrom(streams).Draw(t, "stream") }
		block := func() int { return rapid.IntRange(0, len(w.live)-1).Draw(t, "which") }
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				for range rapid.IntRange(1, 6).Draw(t, "times") {
					bytes := 256 * rapid.Uint64Range(0, 5).Draw(t, "units")
					if rapid.IntRange(0, 4).Draw(t, "large") == 0 {
						bytes = rapid.Uint64Range(0, limit+limit/8).Draw(t, "bytes")
					}
					if _, err := w.allocate(stream(), bytes); err != nil {
						w.mustNotHaveHelped(bytes, err)
					}
				}
			},
			"free": func(t *rapid.T) {
				for range rapid.IntRange(0, min(5, len(w.live))).Draw(t, "times") {
					if rapid.IntRange(0, 3).Draw(t, "on another stream") == 0 {
						w.freeOn(block(), stream())
					} else {
						w.free(block())
					}
				}
			},
			"record": func(t *rapid.T) {
				if len(w.live) > 0 {
					w.record(block(), stream())
				}
			},
			"work": func(t *rapid.T) {
				if len(w.live) > 0 {
					b := w.live[block()]
					w.work(rapid.SampledFrom(append(b.users, b.stream)).Draw(t, "user"), b.Block)
				}
			},
			"the device goes on": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "times") {
					w.advance(stream())
				}
			},
			"trim": func(*rapid.T) { _, _ = w.a.Trim() },
			"new stream": func(*rapid.T) {
				if len(streams) < 4 {
					streams = append(streams, w.newStream())
					w.fleeting[streams[len(streams)-1]] = rapid.Bool().Draw(t, "it may be destroyed")
				}
			},
			"end of a stream": func(*rapid.T) {
				if len(streams) > 1 && w.end(streams[1]) == nil {
					ended := streams[1]
					streams = append(streams[:1], streams[2:]...)
					for i := range w.live { // work can only be queued in open streams
						b := &w.live[i]
						if b.stream == ended {
							b.stream = 0
							w.record(i, 0)
						}
						b.users = nil
					}
				}
			},
			"": func(*rapid.T) { w.check() },
		})
	})
}

// drawWorld draws a pool: fixed, growing by regions, or growing in place; with a timeline and a device that may fail.
func drawWorld(t *rapid.T) (w *world, end func()) {
	var fail func(int) error
	if rapid.Bool().Draw(t, "the device refuses") {
		n := rapid.IntRange(2, 5).Draw(t, "each time in")
		fail = func(call int) error {
			if call > 1 && call%n == 0 {
				return fakedevice.ErrInjected
			}
			return nil
		}
	}
	opts := bfc.Options{GarbageCollect: rapid.Bool().Draw(t, "collect"),
		Split: bfc.SplitRule{TensorFlow: rapid.Bool().Draw(t, "TensorFlow")}}
	if rapid.Bool().Draw(t, "virtual") {
		device := fakedevice.NewVirtual(1 << 40)
		device.GranuleBytes = 1024
		v, err := suballoc.NewVirtual(device, suballoc.VirtualOptions{
			LimitBytes: rapid.Uint64Range(1, 64).Draw(t, "limit") * 256, RangeBytes: 1 << rapid.IntRange(10, 17).Draw(
				t, "range"),
		})
		require.NoError(t, err)
		device.Fail = fail
		w = newWorld(t, v, opts)
		w.watch(device)
		end = func() {
			device.Fail = nil
			w.endWatch(device)
			require.NoError(t, v.Check())
			require.NoError(t, w.a.Close())
			require.NoError(t, v.Close())
			require.NoError(t, device.Clean())
		}
	} else {
		device := fakedevice.New(1 << 40)
		device.Fail = fail
		w = newWorld(t, suballoc.NewRegions(device, suballoc.Options{
			LimitBytes: rapid.Uint64Range(1, 64).Draw(t, "limit") * 256, Growth: rapid.Bool().Draw(t, "growth"),
		}), opts)
		end = func() {
			device.Fail = nil
			require.NoError(t, w.a.Close())
		}
	}
	if rapid.Bool().Draw(t, "the timeline refuses") {
		n, calls := rapid.IntRange(1, 5).Draw(t, "each call in"), 0
		w.refuse = func() error {
			if calls++; calls%n == 0 {
				return errRefused
			}
			return nil
		}
	}
	return w, end
}

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
		"one takes all": {{freeOf(0), allocating(0, 3), share(0)}, {freeOf(1), allocating(1, 1), freeOf(1)}},
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
