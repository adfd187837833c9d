package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/plan"
	"gpuconf/tests_go/pool/traces"
)

// recordedRuns is where the recorded runs are: what PyTorch's allocator wrote about itself, each with its end and the
// events before.
const recordedRuns = "tests_go/plan/rewind/testdata/*.json.gz"

// policies are those under which a recorded run's least limit is found.
var policies = []plan.Policy{plan.PyTorch, plan.PyTorchExpandable, plan.TensorFlow, plan.Regions, plan.Virtual}

// recordedResult is a real run: the speed of the contenders, the memory that those of one address range need, and the
// least limits, in bytes.
type recordedResult struct {
	lawResult
	Needed map[string]uint64      `json:"needed"`
	Least  map[plan.Policy]uint64 `json:"least"`
}

func (b *bench) recorded() error {
	paths, err := filepath.Glob(recordedRuns)
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("no recorded runs are at %s", recordedRuns)
	}
	for _, path := range paths {
		events, err := readRun(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		law := traceOf(strings.TrimSuffix(filepath.Base(path), ".json.gz"), events)
		var r recordedResult
		if r.lawResult, err = b.law(&law, []league{equal}, b.rounds, false, false); err != nil {
			return err
		}
		r.Needed = b.needed(&law)
		if r.Least, err = leastLimits(events, policies...); err != nil {
			return err
		}
		b.result.Recorded = append(b.result.Recorded, r)
		b.progress("%s: memory", law.Name)
	}
	return nil
}

// readRun reads the allocations and frees of a run. What is live throughout is allocated first; a plan adds what was
// live at the beginning.
func readRun(path string) (events []trace.Event, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	var run struct {
		Segments []struct {
			Stream uint64   `json:"stream"`
			Blocks [][4]any `json:"blocks"` // address, bytes, requested, state
		} `json:"segments_at_end"`
		Trace [][5]any `json:"trace"` // action, address, bytes, stream, microseconds
	}
	if err := json.NewDecoder(text).Decode(&run); err != nil {
		return nil, err
	}
	number := func(value any) uint64 { f, _ := value.(float64); return uint64(f) }
	mentioned := map[uint64]bool{}
	for _, e := range run.Trace {
		action, known := map[any]trace.Action{"alloc": trace.Allocate, "free_completed": trace.Free}[e[0]]
		if known {
			mentioned[number(e[1])] = true
			events = append(events, trace.Event{Action: action, Addr: number(e[1]), Bytes: number(e[2]),
				Stream: number(e[3])})
		}
	}
	var before []trace.Event
	for _, s := range run.Segments {
		for _, b := range s.Blocks {
			if b[3] != "inactive" && !mentioned[number(b[0])] {
				before = append(before, trace.Event{Action: trace.Allocate, Addr: number(b[0]), Bytes: number(b[2]),
					Stream: s.Stream})
			}
		}
	}
	complete, _ := trace.Complete(append(before, events...))
	return complete, nil
}

// traceOf numbers the blocks of events.
func traceOf(name string, events []trace.Event) traces.Trace {
	t := traces.Trace{Name: name}
	live, sizes := map[uint64]uint32{}, []uint64(nil)
	var unused []uint32
	var now uint64
	for _, e := range events {
		if e.Action == trace.Free {
			block, there := live[e.Addr]
			if !there {
				continue
			}
			delete(live, e.Addr)
			unused = append(unused, block)
			now -= sizes[block]
			t.Ops = append(t.Ops, traces.Op{Block: block})
			continue
		}
		block := uint32(len(sizes))
		if n := len(unused); n > 0 {
			block, unused = unused[n-1], unused[:n-1]
		} else {
			sizes = append(sizes, 0)
		}
		live[e.Addr], sizes[block] = block, e.Bytes
		now += e.Bytes
		t.PeakBytes = max(t.PeakBytes, now)
		t.Ops = append(t.Ops, traces.Op{Block: block, Bytes: e.Bytes})
	}
	t.Blocks = len(sizes)
	return inRoom(t)
}
