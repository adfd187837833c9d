package rewind_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
	"gpuconf/gocore/plan/rewind"
	"gpuconf/tests_go/must"
)

// recorder is a device, and the record of a model that uses it.
type recorder struct {
	events []trace.Event
	memory uint64 // left
	stream uint64 // of the current request
	next   uint64
	mixed  bool // segments get addresses in a random order
	random *rand.Rand
	owners map[uint64]uint64 // streams of segments and of mapped granules, by address
}

func (d *recorder) note(action trace.Action, addr, bytes uint64) {
	stream := d.stream
	switch action {
	case trace.SegmentAlloc, trace.SegmentMap:
		for at := addr; at < addr+bytes; at += 2 << 20 {
			d.owners[at] = stream
		}
	case trace.SegmentFree, trace.SegmentUnmap:
		stream = d.owners[addr]
	}
	d.events = append(d.events, trace.Event{Action: action, Addr: addr, Bytes: bytes, Stream: stream})
}

func (d *recorder) MemAlloc(bytes uint64) (uint64, bool) {
	if bytes > d.memory {
		return 0, false
	}
	d.memory -= bytes
	d.next += bytes + d.random.Uint64N(3)<<21
	addr := d.next - bytes
	if d.mixed {
		addr += d.random.Uint64N(1<<20) << 40
	}
	d.note(trace.SegmentAlloc, addr, bytes)
	return addr, true
}

func (d *recorder) MemFree(addr, bytes uint64) {
	d.memory += bytes
	d.note(trace.SegmentFree, addr, bytes)
}

func (d *recorder) MemReserve(uint64, bool) (addr, bytes uint64) {
	d.next += 1 << 36
	return d.next - 1<<36, 1 << 36
}

func (d *recorder) MemMap(addr, bytes uint64) bool {
	if bytes > d.memory {
		return false
	}
	d.memory -= bytes
	d.note(trace.SegmentMap, addr, bytes)
	return true
}

func (d *recorder) MemUnmap(addr, bytes uint64) {
	d.memory += bytes
	d.note(trace.SegmentUnmap, addr, bytes)
}

// run makes a record: random requests on random streams, of which some wait for another stream after the free. Where
// ties go by age, that does not follow from addresses.
func run(t testing.TB, random *rand.Rand, settings caching.Settings, steps int, tiesByAge bool) trace.GPUHistory {
	d := &recorder{memory: 4 << 30, next: 1 << 40, random: random, mixed: tiesByAge, owners: map[uint64]uint64{}}
	model := caching.New(d, caching.Options{Settings: settings, TiesByAge: tiesByAge, LimitBytes: 3 << 30})
	type held struct {
		block     *caching.Block
		requested uint64
		stream    uint64
	}
	var live, late []held
	free := func(list *[]held, completed bool) {
		if len(*list) == 0 {
			return
		}
		i := random.IntN(len(*list))
		h := (*list)[i]
		*list = slices.Delete(*list, i, i+1)
		d.stream = h.stream
		if list == &live {
			d.note(trace.FreeRequested, h.block.Addr, h.requested)
		}
		if !completed {
			model.FreeLater(h.block)
			late = append(late, h)
			return
		}
		d.note(trace.Free, h.block.Addr, h.requested)
		model.Free(h.block)
	}
	streams := 1 + random.IntN(3)
	most := 10 + random.IntN(200)
	for range steps {
		switch p := random.IntN(100); {
		case p < 52 && len(live) < most:
			bytes := uint64(math.Exp(random.Float64()*math.Log(1<<27))) + 1
			d.stream = uint64(random.IntN(streams))
			block, err := model.Allocate(caching.Request{Bytes: bytes, Stream: d.stream})
			if err != nil {
				d.note(trace.AllocateFailure, 0, bytes)
				continue
			}
			d.note(trace.Allocate, block.Addr, bytes)
			live = append(live, held{block, bytes, d.stream})
		case p < 95:
			free(&live, true)
		case p < 97:
			free(&live, false)
		case p < 99:
			free(&late, true)
		case random.IntN(10) == 0:
			model.ReleaseCached()
		}
	}
	require.NoError(t, model.Check())
	return trace.GPUHistory{Events: d.events, Segments: segmentsOf(model, live, late,
		func(h held) (uint64, uint64) { return h.block.Addr, h.requested })}
}

// segmentsOf returns a model's segments as a snapshot lists them: of an expandable one, each mapped range.
func segmentsOf[T any](model *caching.Allocator, live, late []T, of func(T) (addr, requested uint64)) (
	segments []trace.Segment) {
	requested := map[uint64]uint64{}
	for _, h := range slices.Concat(live, late) {
		addr, bytes := of(h)
		requested[addr] = bytes
	}
	for _, s := range model.Segments() {
		var current *trace.Segment
		for _, p := range s.Pieces {
			if p.Unmapped {
				current = nil
				continue
			}
			if current == nil {
				segments = append(segments, trace.Segment{Addr: p.Addr, Stream: s.Stream, Small: s.Small,
					Expandable: s.Expandable, Pool: s.Pool})
				current = &segments[len(segments)-1]
			}
			current.Bytes += p.Bytes
			current.Blocks = append(current.Blocks, trace.HeldBlock{Addr: p.Addr, Bytes: p.Bytes,
				Requested: requested[p.Addr], Held: p.Allocated, Waiting: p.Waiting})
		}
	}
	return segments
}

var settingsTable = []struct {
	name     string
	settings caching.Settings
}{
	{"defaults", caching.Settings{}},
	{"max_split_size_mb:32", caching.Settings{MaxSplitBytes: 32 << 20}},
	{"roundup_power2_divisions:4", caching.Settings{RoundupDivisions: caching.RoundupAll(4)}},
	{"large_segment_size_mb:40", caching.Settings{LargeSegmentBytes: 40 << 20}},
	{"garbage_collection_threshold:0.5", caching.Settings{GarbageThreshold: 0.5}},
	{"expandable_segments:True", caching.Settings{ExpandableSegments: true}},
}

func historySettings(s caching.Settings) trace.HistorySettings {
	return trace.HistorySettings{
		MaxSplitBytes: s.MaxSplitBytes, LargeSegmentBytes: s.LargeSegmentBytes,
		ExpandableSegments: s.ExpandableSegments,
		GarbageThreshold:   s.GarbageThreshold, RoundupDivisions: s.RoundupDivisions,
	}
}

// A record from which the oldest events are lost, at any point, is replayed address by address.
func TestRandomRuns(t *testing.T) {
	for _, row := range settingsTable {
		t.Run(row.name, func(t *testing.T) {
			allocations, undetermined := 0, 0
			for seed := range uint64(40) {
				random := rand.New(rand.NewPCG(seed, 1))
				history := run(t, random, row.settings, 3000, false)
				history.Events = history.Events[random.IntN(len(history.Events)):]
				v := must.OK(rewind.Verify(context.Background(), &trace.History{Settings: historySettings(row.settings),
					GPUs: []trace.GPUHistory{history}}))(t)
				require.Empty(t, v.Difference, fmt.Sprint("seed ", seed))
				require.Equal(t, v.Allocations, v.SameAddress+v.Undetermined)
				require.Equal(t, v.Segments, v.SameSegments)
				allocations += v.Allocations
				undetermined += v.Undetermined
			}
			require.LessOrEqual(t, 1000*undetermined, allocations)
		})
	}
}

// The same where ties go by the age of segments. A cut record does not have the ages of the segments that were there
// when it begins. An allocation that shows one of them counts as undetermined, and the later ones follow from it.
func TestRandomRunsWithTiesByAge(t *testing.T) {
	for _, row := range settingsTable {
		t.Run(row.name, func(t *testing.T) {
			for seed := range uint64(6) {
				random := rand.New(rand.NewPCG(seed, 2))
				history := run(t, random, row.settings, 30_000, true)
				history.Events = history.Events[random.IntN(len(history.Events)/4):]
				settings := historySettings(row.settings)
				settings.TiesByAge = true
				v := must.OK(rewind.Verify(context.Background(), &trace.History{Settings: settings,
					GPUs: []trace.GPUHistory{history}}))(t)
				require.Empty(t, v.Difference, fmt.Sprint("seed ", seed))
				require.Equal(t, v.Allocations, v.SameAddress+v.Undetermined)
				require.Equal(t, v.Segments, v.SameSegments)
				require.LessOrEqual(t, v.Undetermined, segmentsBefore(history), fmt.Sprint("seed ", seed))
			}
		})
	}
}

// A record may begin with any allocation: one that took a segment, or one from a free block that another, unknown age
// decided about.
func TestRecordsThatBeginWithAnAllocation(t *testing.T) {
	history := run(t, rand.New(rand.NewPCG(1, 3)), caching.Settings{}, 4000, true)
	events := history.Events
	for i, e := range events {
		if e.Action != trace.Allocate || i%5 != 0 {
			continue
		}
		history.Events = events[i:]
		v, err := rewind.Verify(context.Background(), &trace.History{Settings: trace.HistorySettings{TiesByAge: true},
			GPUs: []trace.GPUHistory{history}})
		require.NoError(t, err)
		require.Empty(t, v.Difference, fmt.Sprint("from event ", i))
	}
}

// segmentsBefore returns how many segments there were when a record begins.
func segmentsBefore(history trace.GPUHistory) int {
	number := len(history.Segments)
	for _, e := range history.Events {
		switch e.Action {
		case trace.SegmentAlloc:
			number--
		case trace.SegmentFree:
			number++
		}
	}
	return number
}
