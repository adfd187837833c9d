package rewind_test

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/trace"
	"gpuconf/tests_go/must"
)

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
