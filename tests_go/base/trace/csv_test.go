package trace_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/tests_go/must"
)

// formatCSV is a file of events.
func formatCSV(events []trace.Event) string { return trace.Header + "\n" + trace.FormatLines(events) }

func TestCSVThatOthersWrite(t *testing.T) {
	const day = int64(24 * 60 * 60 * 1e6)
	const header = "Thread,Time,Action,Pointer,Size,Stream\n"
	for _, row := range []struct {
		name, text string
		want       []trace.Event
	}{
		{"RMM's adaptor", header +
			"4711,10:20:30.000123,allocate,0x7f8a40000000,1024,0x7f8a38001020\n4711,10:20:30.000124,allocate " +
			"failure,(nil),99,0\n4711,10:20:31.000000,free,0x7f8a40000000,1024,0x1\n",
			[]trace.Event{
				{Micros: 37230000123, Thread: 4711, Action: trace.Allocate, Addr: 0x7f8a40000000, Bytes: 1024,
					Stream: 0x7f8a38001020},
				{Micros: 37230000124, Thread: 4711, Action: trace.AllocateFailure, Bytes: 99},
				{Micros: 37231000000, Thread: 4711, Action: trace.Free, Addr: 0x7f8a40000000, Bytes: 1024, Stream: 1},
			}},
		{"RMM's older time", header + "1,00:00:01:000002,allocate,0x100,1,0\n",
			[]trace.Event{{Micros: 1000002, Thread: 1, Action: trace.Allocate, Addr: 0x100, Bytes: 1}}},
		{"RMM's guide", header + "1,1634567890.123456,allocate,0x100,1,0x2\n1,1634567890.2,deallocate,0x100,1,0x2\n",
			[]trace.Event{
				{Micros: 1634567890123456, Thread: 1, Action: trace.Allocate, Addr: 0x100, Bytes: 1, Stream: 2},
				{Micros: 1634567890200000, Thread: 1, Action: trace.Free, Addr: 0x100, Bytes: 1, Stream: 2},
			}},
		{"midnight passes", header + "1,23:59:59.5,allocate,0x100,1,0\n1,00:00:00.5,free,0x100,1,0\n",
			[]trace.Event{
				{Micros: day - 500000, Thread: 1, Action: trace.Allocate, Addr: 0x100, Bytes: 1},
				{Micros: day + 500000, Thread: 1, Action: trace.Free, Addr: 0x100, Bytes: 1},
			}},
		{"three columns in another order, and an unknown one", "Size,Note,Pointer,Action\n5,x,ff00,allocate\n",
			[]trace.Event{{Action: trace.Allocate, Addr: 0xff00, Bytes: 5}}},
		{"carriage returns, blanks, empty lines, a byte order mark",
			"\uFEFF\r\nAction, Pointer ,Size\r\n\r\n allocate ,0x1, 5\r\n\r\n",
			[]trace.Event{{Action: trace.Allocate, Addr: 1, Bytes: 5}}},
		{"quoted names, a stream in words, several GPUs",
			"\"Action\",\"Pointer\",\"Size\",\"Stream\",\"GPU\"\nallocate,0x1,5,default,3\n",
			[]trace.Event{{Action: trace.Allocate, Addr: 1, Bytes: 5, GPU: 3}}},
		{"a decimal stream, no time, no newline at the end", "Action,Pointer,Size,Stream,Time\nfree,0x1,5,12,",
			[]trace.Event{{Action: trace.Free, Addr: 1, Bytes: 5, Stream: 12}}},
		{"nothing but a header", header, []trace.Event{}},
		{"nothing at no address", header + "1,1,allocate,(nil),0,0\n",
			[]trace.Event{{Micros: 1e6, Thread: 1, Action: trace.Allocate}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			read := must.OK(trace.ParseCSV(context.Background(), row.text))(t)
			require.Equal(t, row.want, read.Events)
		})
	}
}

func TestCSVThatIsNone(t *testing.T) {
	const header = "Thread,Time,Action,Pointer,Size,Stream,GPU\n"
	const good = "1,1.5,allocate,0x100,1,0,0\n"
	for _, row := range []struct{ name, text, want string }{
		{"nothing", "", "line 1: the file is empty; expected header Thread,Time,Action,Pointer,Size,Stream"},
		{"blank lines only", "\n\n", "line 1: the file is empty"},
		{"another file", "a,b\n1,2\n", `line 1: no column Action in "a,b"; expected header`},
		{"no header", good, `line 1: no column Action in "1,1.5,allocate,0x100,1,0,0"`},
		{"a column twice", "Action,Size,Pointer,Size\n", "line 1: duplicate column Size"},
		{"a column missing", "Action,Size\n", "line 1: no column Pointer"},
		{"too few fields", header + good + "1,2,free\n", `line 3: 3 fields in "1,2,free"; the header has 7`},
		{"too many fields", header + good[:len(good)-1] + ",9\n",
			`line 2: more fields in "1,1.5,allocate,0x100,1,0,0,9" than the header's 7`},
		{"an unknown action", header + good + "\n1,1,grow,0x100,1,0,0\n", `line 4: invalid Action "grow": ` +
			"it must be allocate, free or allocate failure"},
		{"an empty action", header + "1,1,,0x100,1,0,0\n", `line 2: invalid Action ""`},
		{"a pointer that is none", header + "1,1,free,0xyz,1,0,0\n", `line 2: invalid Pointer "0xyz"`},
		{"a pointer beyond 64 bits", header + "1,1,free,0x10000000000000000,1,0,0\n", "invalid Pointer "},
		{"a negative size", header + "1,1,free,0x1,-1,0,0\n", `line 2: invalid Size "-1"`},
		{"a size beyond 63 bits", header + "1,1,free,0x1,9223372036854775808,0,0\n", "invalid Size "},
		{"a hexadecimal size", header + "1,1,free,0x1,0x10,0,0\n", "invalid Size "},
		{"a size with an underscore", header + "1,1,free,0x1,1_0,0,0\n", "invalid Size "},
		{"a thread that is none", header + "main,1,free,0x1,1,0,0\n", `invalid Thread "main"`},
		{"a stream that is none", header + "1,1,free,0x1,1,fast,0\n", `invalid Stream "fast"`},
		{"a GPU that is none", header + "1,1,free,0x1,1,0,1024\n", `invalid GPU "1024"`},
		{"a time that is none", header + "1,noon,free,0x1,1,0,0\n", `invalid Time "noon": it must be seconds or ` +
			"hours:minutes:seconds"},
		{"half a time", header + "1,10:20,free,0x1,1,0,0\n", `invalid Time "10:20"`},
		{"an hour too many", header + "1,24:00:00.0,free,0x1,1,0,0\n", "invalid Time "},
		{"a time of letters", header + "1,10:20:30.x,free,0x1,1,0,0\n", "invalid Time "},
		{"seconds beyond all", header + "1,99999999999999999999,free,0x1,1,0,0\n", "invalid Time "},
		{"no address", header + "1,1,allocate,(nil),7,0,0\n", "line 2: allocate of 7 bytes without an address"},
		{"a long line", header + strings.Repeat("x", 1000), `line 2: invalid Thread "` + strings.Repeat("x", 60) +
			`..."`},
		{"a stack without frames", "Action,Pointer,Size,Stack\nfree,1,1,7=\n", `invalid Stack "7="`},
		{"a stack that did not come before", "Action,Pointer,Size,Stack\nfree,1,1,7\n", `invalid Stack "7"`},
		{"a stack without a number", "Action,Pointer,Size,Stack\nfree,1,1,=a:1:f\n", `invalid Stack "=a:1:f"`},
		{"a frame without a line", "Action,Pointer,Size,Stack\nfree,1,1,1=a.py:f\n", `invalid Stack "1=a.py:f"`},
		{"a line that is no number", "Action,Pointer,Size,Stack\nfree,1,1,1=a.py:x:f\n", "invalid Stack "},
		{"a line too high", "Action,Pointer,Size,Stack\nfree,1,1,1=a.py:2147483648:f\n", "invalid Stack "},
		{"a tag with half an escape", "Action,Pointer,Size,Tag\nfree,1,1,a%2\n", `invalid Tag "a%2"`},
		{"a tag that is no text", "Action,Pointer,Size,Tag\nfree,1,1,%ff\n", `invalid Tag "%ff"`},
		{"bytes that are no text", header + "1,1,\xff\xfe,0x1,1,0,0\n", `line 2: invalid Action "\xff\xfe"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := trace.ParseCSV(context.Background(), row.text)
			require.ErrorContains(t, err, row.want)
			must.Fail(t, status.InvalidArgument, err)
		})
	}
}

func anyEvent(t *rapid.T) trace.Event {
	e := trace.Event{
		Micros: rapid.Int64Range(0, 1<<33*1e6-1).Draw(t, "micros"),
		Thread: rapid.Uint64().Draw(t, "thread"),
		Action: rapid.SampledFrom([]trace.Action{trace.Allocate, trace.AllocateFailure, trace.Free, trace.SegmentAlloc,
			trace.SegmentFree, trace.SegmentMap, trace.SegmentUnmap}).Draw(t, "action"),
		GPU:    rapid.IntRange(0, 1023).Draw(t, "gpu"),
		Addr:   rapid.Uint64Range(1, 1<<64-1).Draw(t, "address"),
		Bytes:  rapid.Uint64Range(0, 1<<63-1).Draw(t, "bytes"),
		Stream: rapid.Uint64().Draw(t, "stream"),
		Holder: rapid.Uint32().Draw(t, "holder"),
		Stack:  rapid.Uint32().Draw(t, "stack"),
	}
	return e
}

func TestCSVRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOf(rapid.Custom(anyEvent)).Draw(t, "events")
		again := must.OK(trace.ParseNumbered(context.Background(), formatCSV(events)))(t)
		require.Equal(t, append([]trace.Event{}, events...), again)
	})
}

func FuzzParseCSV(f *testing.F) {
	f.Add("Thread,Time,Action,Pointer,Size,Stream\n1,23:59:59.5,allocate,0x100,1,0\n")
	f.Add("Action,Pointer,Size\nfree,(nil),0")
	f.Add("Action,Pointer,Size,Library,Tag,Stack\nallocate,1,1,torch,a%2Cb,1=a.py:1:f;b.py:2:g\nfree,1,1,,,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := trace.ParseCSV(context.Background(), text)
		if err != nil {
			must.Fail(t, status.InvalidArgument, err)
			return
		}
		events := read.Events
		for _, e := range events {
			require.Less(t, int(e.Holder), len(read.Names.Holders))
			require.Less(t, int(e.Stack), len(read.Names.Stacks))
		}
		require.Equal(t, events, must.OK(trace.ParseNumbered(context.Background(), formatCSV(events)))(t))
		complete, added := trace.Complete(events)
		require.Equal(t, events, append([]trace.Event{}, complete[added:]...))
	})
}

func TestCSVWithHoldersAndStacks(t *testing.T) {
	read := must.OK(trace.ParseCSV(context.Background(), "Action,Pointer,Size,Library,Tag,Stack,HolderID\n"+
		"allocate,0x100,5,torch,optimizer,3=/a b/train%3A.py:12:<module>;x.py:1:f,99\n"+
		"allocate,0x200,5,torch,a%2C%22b%22,3,99\n"+
		"allocate,0x300,5,torch,optimizer,4=/a b/train%3A.py:12:<module>;x.py:1:f,99\n"+
		"free,0x100,5,,,,99\n"+
		"free,0x200,5,,late,5=x.py:0:g,99\n"))(t)
	first := trace.Stack{{File: "/a b/train:.py", Line: 12, Function: "<module>"},
		{File: "x.py", Line: 1, Function: "f"}}
	require.Equal(t, trace.Names{
		Holders: []trace.Holder{{}, {Library: "torch", Tag: "optimizer"}, {Library: "torch", Tag: `a,"b"`},
			{Tag: "late"}},
		Stacks: []trace.Stack{nil, first, {{File: "x.py", Function: "g"}}},
	}, read.Names)
	var numbers [][2]uint32
	for _, e := range read.Events {
		numbers = append(numbers, [2]uint32{e.Holder, e.Stack})
	}
	require.Equal(t, [][2]uint32{{1, 1}, {2, 1}, {1, 1}, {0, 0}, {3, 2}}, numbers)
}
