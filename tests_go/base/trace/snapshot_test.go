package trace_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/tests_go/must"
)

// snapshots returns excerpts of a run of PyTorch on a GPU, pickled by Python: 60 events and 6 segments, in several
// protocols, with and without stack frames.
func snapshots(t testing.TB) map[string][]byte {
	paths := must.OK(filepath.Glob("testdata/*.pickle"))(t)
	require.Len(t, paths, 3)
	found := map[string][]byte{}
	for _, path := range paths {
		found[filepath.Base(path)] = must.OK(os.ReadFile(path))(t)
	}
	return found
}

func TestSnapshotsOfPyTorch(t *testing.T) {
	var first []trace.Event
	for name, data := range snapshots(t) {
		t.Run(name, func(t *testing.T) {
			read := must.OK(readSnapshot(context.Background(), data))(t)
			events := read.Events
			require.Greater(t, len(events), 40)
			for i := range events {
				require.Less(t, int(events[i].Stack), len(read.Names.Stacks))
				events[i].Stack = 0
			}
			if first == nil {
				first = events
			}
			require.Equal(t, first, events, "whatever the protocol, and the frames")
			_, added := trace.Complete(events)
			require.LessOrEqual(t, added, 60)
		})
	}
}

// pickled writes a pickle.
func pickled(value any) string {
	switch v := value.(type) {
	case string:
		return "\x8c" + string([]byte{byte(len(v))}) + v
	case int:
		return "\x8a\x09" + string(binary.LittleEndian.AppendUint64(nil, uint64(v))) + "\x00"
	case []any:
		text := "]("
		for _, item := range v {
			text += pickled(item)
		}
		return text + "e"
	case map[string]any:
		text := "}("
		for key, item := range v {
			text += pickled(key) + pickled(item)
		}
		return text + "u"
	}
	return "N"
}

type (
	list = []any
	dict = map[string]any
)

func file(value any) []byte { return []byte("\x80\x04" + pickled(value) + ".") }

func TestSnapshot(t *testing.T) {
	alloc := dict{"action": "alloc", "addr": 4096, "size": 100, "time_us": 7}
	live := dict{"size": 512, "requested_size": 300, "state": "active_allocated"}
	pending := dict{"size": 1024, "state": "active_pending_free"}
	free := dict{"size": 256, "state": "inactive"}
	read := must.OK(readSnapshot(context.Background(), file(dict{
		"device_traces": list{list{}, list{alloc, dict{"action": "later"}, dict{"action": "free_requested"},
			dict{"action": "oom", "size": 5}, dict{"action": "free_completed", "addr": 4096, "size": 100,
				"stream": 3}}},
		"segments": list{dict{"device": 1, "address": 1 << 20, "blocks": list{live, free, pending}},
			dict{"device": 1, "address": 4096, "blocks": list{live}}},
	})))(t)
	require.Equal(t, []trace.Event{
		{Micros: 7, Action: trace.Allocate, Before: true, GPU: 1, Addr: 1 << 20, Bytes: 300, Block: 512},
		{Micros: 7, Action: trace.Allocate, Before: true, GPU: 1, Addr: 1<<20 + 768, Bytes: 1024, Block: 1024},
		{Micros: 7, Action: trace.Allocate, GPU: 1, Addr: 4096, Bytes: 100},
		{Action: trace.AllocateFailure, GPU: 1, Bytes: 5},
		{Action: trace.Free, GPU: 1, Addr: 4096, Bytes: 100, Stream: 3},
	}, read.Events, "what is live in the end and in no event comes first; an address that events mention is theirs")
}

func TestSnapshotWithHoldersAndStacks(t *testing.T) {
	inner, outer := dict{"filename": "a.py", "line": 3, "name": "f"}, dict{"filename": "b.py", "line": 1,
		"name": "<module>"}
	broken := dict{"filename": 7, "line": "x", "name": list{}}
	alloc := func(addr int, frames any, more dict) dict {
		entry := dict{"action": "alloc", "addr": addr, "size": 100, "frames": frames}
		maps.Copy(entry, more)
		return entry
	}
	block := dict{"size": 512, "state": "active_allocated", "frames": list{outer}, "library": "cupy", "tag": "kept"}
	read := must.OK(readSnapshot(context.Background(), file(dict{
		"device_traces": list{list{
			alloc(4096, list{inner, outer}, dict{"library": "torch", "tag": "x"}),
			alloc(8192, list{inner, broken, outer}, dict{"library": 5, "tag": "\xff"}),
			alloc(12288, 7, nil),
			dict{"action": "free_completed", "addr": 4096, "size": 100, "frames": list{outer}},
		}},
		"segments": list{dict{"address": 1 << 20, "blocks": list{block}}},
	})))(t)
	require.Equal(t, trace.Names{
		Holders: []trace.Holder{{}, {Library: "torch", Tag: "x"}, {Library: "cupy", Tag: "kept"}},
		Stacks: []trace.Stack{nil, {{File: "a.py", Line: 3, Function: "f"},
			{File: "b.py", Line: 1, Function: "<module>"}},
			{{File: "b.py", Line: 1, Function: "<module>"}}},
	}, read.Names)
	var numbers [][2]uint32
	for _, e := range read.Events {
		numbers = append(numbers, [2]uint32{e.Holder, e.Stack})
	}
	require.Equal(t, [][2]uint32{{2, 2}, {1, 1}, {0, 1}, {0, 0}, {0, 0}}, numbers)
}

func TestSnapshotsThatAreNone(t *testing.T) {
	event := func(changes dict) any {
		e := dict{"action": "alloc", "addr": 1, "size": 1}
		for key, value := range changes {
			e[key] = value
		}
		return dict{"device_traces": list{list{e}}}
	}
	many := list{}
	for range 1025 {
		many = append(many, list{})
	}
	many[1024] = list{dict{"action": "alloc", "addr": 1, "size": 1}}
	for _, row := range []struct {
		name string
		file any
		want string
	}{
		{"another object", list{}, "it is not a memory snapshot: it has no device_traces; call " +
			"torch.cuda.memory._record_memory_history()"},
		{"no list of traces", dict{"device_traces": 5}, "it has no device_traces"},
		{"no list", dict{"device_traces": list{5}}, "device_traces[0]: expected a list, but got int"},
		{"no event", dict{"device_traces": list{list{dict{}, 5}}}, "device_traces[0][1]: expected a dict, but got int"},
		{"no address", event(dict{"addr": nil}), "device_traces[0][0]: addr must be an integer from 0 to " +
			"18446744073709551615, but got None"},
		{"address 0", event(dict{"addr": 0}), "device_traces[0][0]: allocate of 1 bytes at address 0"},
		{"a size that is none", event(dict{"size": "x"}), "size must be an integer from 0 to 9223372036854775807, " +
			"but got str"},
		{"a size beyond 63 bits", event(dict{"size": -1}), "but got 18446744073709551615"},
		{"a late time", event(dict{"time_us": 1 << 60}), "time_us must be an integer from 0 to 8589934591999999"},
		{"many GPUs", dict{"device_traces": many}, "device_traces[1024][0]: GPU 1024; at most 1024 GPUs are supported"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := readSnapshot(context.Background(), file(row.file))
			require.ErrorContains(t, err, row.want)
			must.Fail(t, status.InvalidArgument, err)
		})
	}
}

// A list of references to one list of references to one event: a few thousand bytes represent billions of events.
func TestSharedEntriesAreBounded(t *testing.T) {
	const many = 4000
	references := func(index string) string { return "](" + strings.Repeat("h"+index, many) + "e" }
	event := pickled(dict{"action": "alloc", "addr": 1, "size": 1}) + "\x940"
	block := pickled(dict{"size": 0, "state": "inactive"}) + "\x940"
	for name, data := range map[string]string{
		"events":        event + references("\x00") + "\x940" + "}\x8c\x0ddevice_traces" + references("\x01") + "s.",
		"empty entries": "}\x940" + references("\x00") + "\x940" + "}\x8c\x0ddevice_traces" + references("\x01") + "s.",
		"blocks": block + "}(\x8c\x07address" + "K\x01\x8c\x06blocks" + references("\x00") + "u\x940" +
			"}(\x8c\x0ddevice_traces]\x8c\x08segments" + references("\x01") + "u.",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := readSnapshot(context.Background(), []byte(data))
			require.ErrorContains(t, err, "its contents take more than")
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
		})
	}
}

func TestReadingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, must.Err(readSnapshot(ctx, file(dict{"device_traces": list{}}))), context.Canceled)
	require.ErrorIs(t, must.Err(trace.ParseCSV(ctx, "Action,Pointer,Size\nfree,0x1,1\n")), context.Canceled)
	r := newRecorder(t, 10)
	record(ringOf(t, r, 0), trace.AllocateFailure, 0, 1)
	r.Stop(nil)
	require.ErrorIs(t, must.Err(r.Recording(ctx)), context.Canceled)
	require.Len(t, must.OK(r.Recording(context.Background()))(t, "nothing is lost").Events, 1)
	require.NoError(t, r.Close())
}

// Lines without an event take no memory. (Memory for one event was once allocated for each line.)
func TestEmptyLinesTakeNoMemory(t *testing.T) {
	text := "Action,Pointer,Size\n" + strings.Repeat("\n", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read, err := trace.ParseCSV(context.Background(), text)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Empty(t, read.Events)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(9*len(text)))
	_, err = trace.ParseCSV(context.Background(), strings.Repeat(",", 1<<20)+"\n")
	require.ErrorContains(t, err, "line 1: 1048577 columns in")
}

func FuzzReadSnapshot(f *testing.F) {
	for _, data := range snapshots(f) {
		f.Add(data)
	}
	f.Add([]byte("\x80\x04K\x01r\xff\xff\xff\x3f."))
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		read, err := readSnapshot(context.Background(), data)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20+200*len(data)))
		if err != nil {
			must.Fail(t, status.InvalidArgument, err)
			return
		}
		for _, e := range read.Events {
			require.Less(t, int(e.Holder), len(read.Names.Holders))
			require.Less(t, int(e.Stack), len(read.Names.Stacks))
		}
		again := must.OK(trace.ParseNumbered(context.Background(), formatCSV(read.Events)))(t)
		require.Equal(t, append([]trace.Event{}, read.Events...), again)
	})
}

// PyTorch records frames of C++, too, and the program's own are below them.
func TestCallSitesAreTheProgramsOwn(t *testing.T) {
	own := trace.Frame{File: "/home/me/train.py", Line: 12, Function: "step"}
	site, ok := trace.Stack{{File: "??", Function: "??"}, {File: "/usr/lib/libc10_cuda.so", Line: 7},
		{File: "/usr/lib/libpython3.11.so.1.0"}, own}.CallSite()
	require.True(t, ok)
	require.Equal(t, own, site)
}

// The rule has two implementations, here and in Python (tests_py/memory/test_stacks.py): this table is for both.
func TestCallSites(t *testing.T) {
	text := must.OK(os.ReadFile("testdata/call_sites.json"))(t)
	var rows []struct {
		Case     string
		Stack    [][3]any
		CallSite *[3]any `json:"call_site"`
	}
	require.NoError(t, json.Unmarshal(text, &rows))
	frame := func(f [3]any) trace.Frame {
		return trace.Frame{File: f[0].(string), Line: int(f[1].(float64)), Function: f[2].(string)}
	}
	for _, row := range rows {
		t.Run(row.Case, func(t *testing.T) {
			var stack trace.Stack
			for _, f := range row.Stack {
				stack = append(stack, frame(f))
			}
			site, ok := stack.CallSite()
			require.Equal(t, row.CallSite != nil, ok)
			if ok {
				require.Equal(t, frame(*row.CallSite), site)
			}
		})
	}
}

// PyTorch writes a list of frames for each event, of frames that it stores once. Such a file was refused as if it were
// an attack.
func TestSharedFramesAreNotChargedForEachEvent(t *testing.T) {
	const frames, stacks, events, length = 500, 100, 5000, 100
	var b strings.Builder
	b.WriteString("\x80\x04")
	for i := range frames {
		b.WriteString(pickled(dict{"filename": "/home/me/model.py", "line": i, "name": "f"}) + "\x940")
	}
	b.WriteString("}\x8c\x0ddevice_traces](](")
	for n := range events {
		b.WriteString("}(\x8c\x06action\x8c\x05alloc\x8c\x04addr")
		b.WriteString(pickled(512*(n+1)) + "\x8c\x04size" + pickled(512) + "\x8c\x06frames](")
		for i := range length {
			b.WriteString("j" + string(binary.LittleEndian.AppendUint32(nil, uint32((n%stacks+i)%frames))))
		}
		b.WriteString("eu")
	}
	b.WriteString("ees.")
	read := must.OK(readSnapshot(context.Background(), []byte(b.String())))(t)
	require.Len(t, read.Events, events)
	require.Len(t, read.Names.Stacks, stacks+1)
}

// readSnapshot reads a snapshot as a Recording.
func readSnapshot(ctx context.Context, data []byte) (trace.Recording, error) {
	recording, _, _, err := trace.ReadBoth(ctx, data)
	return recording, err
}
