package rewind_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/rewind"
	"gpuconf/tests_go/must"
)

func verify(t testing.TB, gpus ...trace.GPUHistory) *rewind.Verdict {
	verdict, err := rewind.Verify(context.Background(), &trace.History{GPUs: gpus})
	require.NoError(t, err)
	return verdict
}

// The model gives every allocation of nine recorded runs the address that PyTorch gave it, and takes each segment when
// PyTorch did.
func TestRecordedRuns(t *testing.T) {
	for _, path := range records(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			v := verify(t, recorded(t, path))
			require.Empty(t, v.Difference)
			require.Equal(t, v.Allocations, v.SameAddress)
			require.Equal(t, v.Segments, v.SameSegments)
			require.Zero(t, v.Undetermined)
			require.Greater(t, v.Allocations, 1000)
		})
	}
}

// Whatever address or size of an event is altered, the replay differs.
func TestAnAlteredRecordDiffers(t *testing.T) {
	original := recorded(t, "testdata/cnn.json.gz")
	for i := range original.Events {
		if i%37 != 0 && original.Events[i].Action != trace.SegmentAlloc {
			continue
		}
		for name, alter := range map[string]func(e *trace.Event){
			"address": func(e *trace.Event) { e.Addr += 512 },
			"size":    func(e *trace.Event) { e.Bytes += 4 << 20 },
		} {
			altered := original
			altered.Events = slices.Clone(original.Events)
			alter(&altered.Events[i])
			v := verify(t, altered)
			require.NotEmpty(t, v.Difference, "event %d: %s", i+1, name)
			require.Less(t, v.SameAddress+v.SameSegments, v.Allocations+v.Segments)
		}
	}
}

// Nor does a record pass of which the end has been altered.
func TestAnAlteredEndDiffers(t *testing.T) {
	for i := range recorded(t, "testdata/cnn.json.gz").Segments {
		altered := recorded(t, "testdata/cnn.json.gz")
		s := &altered.Segments[i]
		if len(s.Blocks) < 2 {
			continue
		}
		s.Blocks[0].Bytes += 512
		s.Blocks[1].Addr += 512
		s.Blocks[1].Bytes -= 512
		require.NotEmpty(t, verify(t, altered).Difference, "segment %d", i)
	}
}

// record is the JSON of a snapshot in testdata: the end and the events of a run of PyTorch on a GPU.
type record struct {
	Segments []struct {
		Address    uint64    `json:"address"`
		Bytes      uint64    `json:"total_size"`
		Stream     uint64    `json:"stream"`
		Type       string    `json:"segment_type"`
		Expandable bool      `json:"expandable"`
		Pool       [2]uint64 `json:"pool"`
		Blocks     [][4]any  `json:"blocks"` // address, bytes, requested, state
	} `json:"segments_at_end"`
	Trace [][5]any `json:"trace"` // action, address, bytes, stream, microseconds
}

var actions = map[string]trace.Action{
	"alloc": trace.Allocate, "free_requested": trace.FreeRequested, "free_completed": trace.Free,
	"oom":           trace.AllocateFailure,
	"segment_alloc": trace.SegmentAlloc, "segment_free": trace.SegmentFree,
}

func recorded(t testing.TB, path string) trace.GPUHistory {
	file := must.OK(os.Open(path))(t)
	defer file.Close()
	text := must.OK(gzip.NewReader(file))(t)
	var r record
	require.NoError(t, json.NewDecoder(text).Decode(&r))
	var h trace.GPUHistory
	for _, s := range r.Segments {
		segment := trace.Segment{Addr: s.Address, Bytes: s.Bytes, Stream: s.Stream, Pool: s.Pool,
			Small: s.Type == "small", Expandable: s.Expandable}
		for _, b := range s.Blocks {
			segment.Blocks = append(segment.Blocks, trace.HeldBlock{
				Addr: number(b[0]), Bytes: number(b[1]), Requested: number(b[2]), Held: b[3] != "inactive",
				Waiting: b[3] == "active_pending_free",
			})
		}
		h.Segments = append(h.Segments, segment)
	}
	for _, e := range r.Trace {
		action, known := actions[e[0].(string)]
		if !known {
			require.Equal(t, "snapshot", e[0])
			continue
		}
		h.Events = append(h.Events, trace.Event{Action: action, Addr: number(e[1]), Bytes: number(e[2]),
			Stream: number(e[3]), Micros: int64(number(e[4]))})
	}
	return h
}

func number(value any) uint64 { return uint64(value.(float64)) }

func records(t testing.TB) (paths []string) {
	paths = must.OK(filepath.Glob("testdata/*.json.gz"))(t)
	require.Len(t, paths, 9)
	return paths
}

// A record in which anything has been altered gets a verdict: no panic, and no address counts twice.
func TestHostileRecords(t *testing.T) {
	numbers := []uint64{0, 1, 511, 512, 1 << 20, 2 << 20, 20 << 20, 1 << 40, 1<<40 + 512, math.MaxInt64,
		math.MaxUint64 - 511, math.MaxUint64}
	for seed := range uint64(1500) {
		random := rand.New(rand.NewPCG(seed, 3))
		row := settingsTable[random.IntN(len(settingsTable))]
		history := run(t, random, row.settings, 200, false)
		for range 1 + random.IntN(4) {
			number := numbers[random.IntN(len(numbers))]
			e := &history.Events[random.IntN(len(history.Events))]
			switch random.IntN(8) {
			case 0:
				e.Addr = number
			case 1:
				e.Bytes = min(number, math.MaxInt64)
			case 2:
				e.Action = trace.Action(random.IntN(10))
			case 3:
				e.Stream = number
			case 4:
				i := random.IntN(len(history.Events))
				history.Events = slices.Delete(history.Events, i, i+1)
			case 5:
				history.Events = append(history.Events, *e)
			default:
				if len(history.Segments) == 0 {
					continue
				}
				s := &history.Segments[random.IntN(len(history.Segments))]
				switch random.IntN(5) {
				case 0:
					s.Small = !s.Small
				case 1:
					s.Expandable = !s.Expandable
				case 2:
					s.Stream = number
				case 3:
					b := &s.Blocks[random.IntN(len(s.Blocks))]
					b.Held, b.Waiting = !b.Held, random.IntN(2) == 0
				case 4:
					history.Segments = append(history.Segments, *s)
				}
			}
		}
		v, err := rewind.Verify(context.Background(), &trace.History{Settings: historySettings(row.settings),
			GPUs: []trace.GPUHistory{history}})
		require.NoError(t, err)
		require.LessOrEqual(t, v.SameAddress+v.Undetermined, v.Allocations)
		require.LessOrEqual(t, v.SameSegments, v.Segments)
	}
}
