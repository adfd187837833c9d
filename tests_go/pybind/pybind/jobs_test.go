//go:build cgo

package pybind_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/pybind"
	"gpuconf/tests_go/must"
)

func TestLoad(t *testing.T) {
	const events = 20_000 // several pages
	id := must.OK(pybind.OpenLoad(int64(wholeTrace(t, events).Fd())))(t)
	result, csv := finish(t, id)
	require.JSONEq(
		t, `{"events": 20000, "names": {"holders": [["", ""]], "frames": [], "stacks": [[]]}, "settings": null, "out_of_memory": null, "hidden": 0, "incomplete": "", "recorded": null}`, result)
	require.Equal(t, events+1, strings.Count(csv, "\n"))
	require.Contains(t, csv, "0,0.000000,free,0x1,3000000,0,0,0,0,,,\n")
	require.Contains(t, requireKind(t, status.InvalidArgument, must.Err(pybind.OpenLoad(-1))), "file descriptor -1")
}

// The caller's descriptor may be closed as soon as the job is open.
func TestALoadHasItsOwnDescriptor(t *testing.T) {
	file := wholeTrace(t, 2)
	id := must.OK(pybind.OpenLoad(int64(file.Fd())))(t)
	require.NoError(t, file.Close())
	result, _ := finish(t, id)
	require.JSONEq(
		t, `{"events": 2, "names": {"holders": [["", ""]], "frames": [], "stacks": [[]]}, "settings": null, "out_of_memory": null, "hidden": 0, "incomplete": "", "recorded": null}`, result)
}

func TestFilesThatAreNone(t *testing.T) {
	for _, row := range []struct{ name, content, want string }{
		{"nothing", "", "line 1: the file is empty"},
		{"another file", "\x7fELF\x00", "it is neither CSV nor a pickle"},
		{"a checkpoint", "PK\x03\x04\x00", "it is a ZIP archive, as a checkpoint of torch.save() is"},
		{"a NUL far behind", "Action,Pointer,Size\n" + strings.Repeat("free,0x1,1\n", 1<<18) + "\x00",
			"it is neither CSV nor a pickle"},
		{"half a pickle", "\x80", "it is not a memory snapshot: at byte 0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := t.TempDir() + "/file"
			require.NoError(t, os.WriteFile(path, []byte(row.content), 0o600))
			file := must.OK(os.Open(path))(t)
			defer func() { _ = file.Close() }()
			id, err := pybind.OpenLoad(int64(file.Fd()))
			require.NoError(t, err)
			for done := false; err == nil && !done; {
				done, err = pybind.WaitJob(id, 100)
			}
			require.Contains(t, requireKind(t, status.InvalidArgument, err), row.want)
			must.OK(pybind.CloseJob(id))(t)
		})
	}
}

// heap returns the live bytes of Go's heap.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A job that is closed in the middle of its work leaves nothing behind: no goroutine, no memory, no descriptor. Closing
// it does not wait for the work: a file may have nothing to read for hours.
func TestAClosedJobLeavesNothing(t *testing.T) {
	read, write := must.OK2(os.Pipe())(t)
	defer func() { _, _ = read.Close(), write.Close() }()
	text := must.OK(os.ReadFile(wholeTrace(t, 200_000).Name()))(t)
	for _, row := range []struct {
		name string
		open func(t *testing.T) int64
	}{
		{"a load that was not begun", nil},
		{"a load that waits for a pipe", func(t *testing.T) int64 {
			return must.OK(pybind.OpenLoad(int64(read.Fd())))(t)
		}},
		{"a load", func(t *testing.T) int64 {
			return must.OK(pybind.OpenLoad(int64(wholeTrace(t, 1_000_000).Fd())))(t)
		}},
		{"a plan", func(t *testing.T) int64 {
			id := must.OK(pybind.OpenPlan("{}"))(t)
			must.OK(pybind.FeedJob(id, string(text)))(t)
			return id
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			goroutines, descriptors, before := runtime.NumGoroutine(), openDescriptors(t), heap()
			var id int64
			if row.open == nil {
				file := wholeTrace(t, 2)
				id = must.OK(pybind.OpenLoad(int64(file.Fd())))(t)
				require.NoError(t, file.Close())
			} else {
				id = row.open(t)
				require.False(t, must.OK(pybind.WaitJob(id, 1))(t))
				requireKind(t, status.FailedPrecondition, must.Err(pybind.FeedJob(id, "more")))
			}
			must.OK(pybind.CloseJob(id))(t)
			requireKind(t, status.InvalidArgument, must.Err(pybind.WaitJob(id, 1)))
			requireKind(t, status.InvalidArgument, must.Err(pybind.CloseJob(id)))
			if row.name == "a load" {
				descriptors++ // the test's own
			}
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
				left := []int{runtime.NumGoroutine() - goroutines, openDescriptors(t) - descriptors,
					int(heap()-before) >> 20}
				if max(left[0], left[1], left[2]) <= 0 {
					break
				}
				require.True(t, time.Now().Before(end), "left of goroutines, descriptors, MiB: %v", left)
			}
		})
	}
}

func openDescriptors(t *testing.T) int { return len(must.OK(os.ReadDir("/proc/self/fd"))(t)) }
