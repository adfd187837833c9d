package bfc_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/tests_go/machine/fakedevice"
	"gpuconf/tests_go/must"
)

// captureWorld is a pool of so many units, with a second stream.
func captureWorld(t *testing.T, units uint64) (w *world, other bfc.Stream) {
	w = newWorld(t, suballoc.NewRegions(fakedevice.New(1<<40), suballoc.Options{LimitBytes: units * 256}),
		bfc.Options{})
	t.Cleanup(func() {
		w.check()
		require.NoError(t, w.a.Close())
	})
	return w, w.newStream()
}

func mustAllocate(t *testing.T, w *world, s bfc.Stream, units uint64) bfc.Block {
	return must.OK(w.allocate(s, units*256))(t)
}

// Only the capture itself may reuse what it frees, until its graph is destroyed.
func TestCapturedMemoryIsNobodyElses(t *testing.T) {
	w, other := captureWorld(t, 2)
	p := w.capture(other)
	first := mustAllocate(t, w, p, 1)
	w.free(0)
	require.Equal(t, uint64(256), w.a.Stats().CapturedBytes)
	again := mustAllocate(t, w, p, 1)
	require.Equal(t, first.Addr, again.Addr, "in the order of the capture")
	w.free(0)
	w.capturing[other] = false

	for _, s := range []bfc.Stream{0, other} {
		_, err := w.allocate(s, 512)
		var oom *bfc.OutOfMemory
		require.ErrorAs(t, err, &oom)
		require.Equal(t, bfc.LimitReached, oom.Cause)
		require.ErrorContains(t, err, "256 bytes of free memory are kept for captured graphs")
		mustAllocate(t, w, s, 1)
		w.free(0)
	}
	must.OK(w.a.Trim())(t)
	require.Equal(t, uint64(512), w.a.Stats().BytesReserved)
	w.graphEnds(p)
	require.Zero(t, w.a.Stats().CapturedBytes)
	mustAllocate(t, w, 0, 2)
	w.free(0)
}

// A block of a capture outlives its graph; then it belongs to its stream, ordered after what is queued there.
func TestBlocksOutliveTheirGraph(t *testing.T) {
	w, other := captureWorld(t, 1)
	p := w.capture(other)
	b := mustAllocate(t, w, p, 1)
	w.capturing[other] = false
	w.graphEnds(p)
	w.work(other, b)
	w.free(0)
	require.Equal(t, b.Addr, mustAllocate(t, w, 0, 1).Addr, "with a wait for the stream")
	require.Contains(t, w.asked, "follow")
	w.free(0)
}

// Work of a stream on memory captured from it is still queued when the graph is destroyed.
func TestMemoryOfAGraphComesAfterItsStream(t *testing.T) {
	for name, shared := range map[string]bool{"freed": false, "held": true} {
		t.Run(name, func(t *testing.T) {
			w, other := captureWorld(t, 1)
			p := w.capture(other)
			b := mustAllocate(t, w, p, 1)
			w.capturing[other] = false
			if shared {
				w.record(0, 0)
			}
			w.work(other, b)
			w.free(0)
			w.graphEnds(p)
			mustAllocate(t, w, 0, 1)
			require.Contains(t, w.asked, "follow")
			w.free(0)
		})
	}
}

// Blocks of other owners that captured work uses are not reused while the graph exists.
func TestACaptureKeepsOthersBlocks(t *testing.T) {
	w, other := captureWorld(t, 1)
	mustAllocate(t, w, 0, 1)
	p := w.capture(other)
	w.record(0, p)
	w.free(0)
	w.capturing[other] = false
	require.ErrorContains(t, must.Err(w.allocate(0, 256)), "kept for captured graphs")
	w.graphEnds(p)
	mustAllocate(t, w, other, 1)
	w.free(0)
}

// Memory that another stream's work may still touch serves a capture only once that work is done. Nothing is queued in
// the captured stream for that: the host waits.
func TestACaptureMakesTheHostWait(t *testing.T) {
	w, other := captureWorld(t, 1)
	for _, s := range []bfc.Stream{0, other} { // of another stream, and what the captured one queued before
		mustAllocate(t, w, s, 1)
		w.free(0)
		if s == other { // it cannot be marked once it is captured
			mustAllocate(t, w, 0, 1)
			w.free(0)
		}
		p := w.capture(other)
		w.takeAsked()
		mustAllocate(t, w, p, 1)
		require.Contains(t, w.takeAsked(), "sync")
		w.free(0)
		w.capturing[other] = false
		w.graphEnds(p)
	}
}

func TestMistakesWithCaptures(t *testing.T) {
	w, other := captureWorld(t, 1)
	must.Fail(t, status.InvalidArgument, must.Err(w.a.NewCapture(7)))
	p := w.capture(other)
	for name, err := range map[string]error{
		"EndCapture of a stream": w.a.EndCapture(other),
		"EndStream of a capture": w.a.EndStream(p),
		"EndCapture of nothing":  w.a.EndCapture(99),
	} {
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), name)
	}
	w.capturing[other] = false
	w.graphEnds(p)
	require.Equal(t, status.InvalidArgument, status.CodeOf(w.a.EndCapture(p)), "it has ended")
	require.Equal(t, p, w.capture(other), "the number is free again")
}

// A random program with captures: while a graph exists, no other owner gets memory that its work touches, and the
// captured stream is not used.
func TestCapturesAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, end := drawWorld(t)
		defer end()
		limit := w.a.Stats().BytesLimit
		all := []bfc.Stream{0, w.newStream(), w.newStream()}
		var graphs []bfc.Stream // owners of captures
		stream := func() bfc.Stream {
			quiet := slices.DeleteFunc(slices.Clone(all), func(s bfc.Stream) bool { return w.capturing[s] })
			return rapid.SampledFrom(quiet).Draw(t, "stream")
		}
		block := func() int { return rapid.IntRange(0, len(w.live)-1).Draw(t, "which") }
		capturing := func() (open []bfc.Stream) {
			return slices.DeleteFunc(slices.Clone(graphs), func(p bfc.Stream) bool {
				return !w.capturing[w.captures[p]] || slices.Index(graphs, p) < lastOf(w, graphs, p)
			})
		}
		allocate := func(s bfc.Stream) {
			bytes := 256 * rapid.Uint64Range(0, 5).Draw(t, "units")
			if rapid.IntRange(0, 4).Draw(t, "large") == 0 {
				bytes = rapid.Uint64Range(0, limit+limit/8).Draw(t, "bytes")
			}
			if _, err := w.allocate(s, bytes); err != nil && w.captures[s] == 0 && len(w.capturing) == 0 {
				w.mustNotHaveHelped(bytes, err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(*rapid.T) { allocate(stream()) },
			"allocate in a capture": func(t *rapid.T) {
				if open := capturing(); len(open) > 0 {
					allocate(rapid.SampledFrom(open).Draw(t, "capture"))
				}
			},
			"free": func(*rapid.T) {
				if len(w.live) > 0 {
					w.free(block())
				}
			},
			"free on a stream": func(*rapid.T) {
				if len(w.live) > 0 {
					w.freeOn(block(), stream())
				}
			},
			"record": func(*rapid.T) {
				if len(w.live) > 0 {
					w.record(block(), stream())
				}
			},
			"use in a capture": func(t *rapid.T) {
				if open := capturing(); len(open) > 0 && len(w.live) > 0 {
					p, at := rapid.SampledFrom(open).Draw(t, "capture"), block()
					if w.live[at].stream == p {
						w.work(p, w.live[at].Block)
					} else {
						w.record(at, p)
					}
				}
			},
			"use what was captured": func(*rapid.T) { // where it was captured, outside a launch
				if len(w.live) > 0 {
					b := w.live[block()]
					if of, ok := w.captures[b.stream]; ok && !w.capturing[of] {
						w.work(of, b.Block)
					}
				}
			},
			"the device goes on": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "times") {
					w.advance(rapid.SampledFrom(all).Draw(t, "stream"))
				}
			},
			"trim": func(*rapid.T) { _, _ = w.a.Trim() },
			"begin a capture": func(*rapid.T) {
				if len(graphs) < 3 && len(w.capturing) < len(all)-1 {
					graphs = append(graphs, w.capture(stream()))
				}
			},
			"end a capture": func(t *rapid.T) {
				if open := capturing(); len(open) > 0 {
					delete(w.capturing, w.captures[rapid.SampledFrom(open).Draw(t, "capture")])
				}
			},
			"a graph goes": func(t *rapid.T) {
				closed := slices.DeleteFunc(slices.Clone(graphs),
					func(p bfc.Stream) bool { return slices.Contains(capturing(), p) })
				if len(closed) > 0 {
					p := rapid.SampledFrom(closed).Draw(t, "graph")
					graphs = slices.DeleteFunc(graphs, func(other bfc.Stream) bool { return other == p })
					w.graphEnds(p)
				}
			},
			"": func(*rapid.T) { w.check() },
		})
	})
}

// lastOf returns the place of the newest capture of the stream that p captures.
func lastOf(w *world, graphs []bfc.Stream, p bfc.Stream) (at int) {
	for i, other := range graphs {
		if w.captures[other] == w.captures[p] {
			at = i
		}
	}
	return at
}
