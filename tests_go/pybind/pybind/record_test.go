//go:build cgo

package pybind_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/pybind"
	"gpuconf/tests_go/must"
)

// finish waits for a job, and returns its result and its events as CSV.
func finish(t *testing.T, job int64) (result, csv string) {
	for done := false; !done; {

		done = must.OK(pybind.WaitJob(job, 100))(t)
	}
	result = must.OK(pybind.JobResult(job))(t)
	csv = trace.Header + "\n"
	for number := int64(0); ; number++ {
		page := must.OK(pybind.JobPage(job, number))(t)
		if page == "" {
			must.OK(pybind.CloseJob(job))(t)
			return result, csv
		}
		csv += page
	}
}

// wholeTrace is a file with so many events.
func wholeTrace(t *testing.T, events int) *os.File {
	path := filepath.Join(t.TempDir(), "trace.csv")
	text := "Action,Pointer,Size\n" + strings.Repeat("allocate,0x1,3000000\nfree,0x1,3000000\n", events/2)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	file := must.OK(os.Open(path))(t)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func TestARecordingEndsWithTheDevices(t *testing.T) {
	onMachine(t, "T4:1GiB")
	require.Contains(t, requireKind(t, status.InvalidArgument, must.Err(pybind.StartRecording(0, false))), "1 to")
	id := must.OK(pybind.StartRecording(100, false))(t)
	_, err := pybind.StartRecording(100, false)
	require.Contains(t, requireKind(t, status.FailedPrecondition, err), "running already")
	initialize(t)
	held := allocate(t, 0, 1000)
	requireKind(t, status.FailedPrecondition, must.Err(pybind.Reset()))
	counts := must.OK(pybind.CountRecorded(id))(t)
	require.Equal(t, "1 0 1", counts, "a reset that is refused changes nothing")
	held.free(t)
	job, err := pybind.OpenRecorded(id)
	require.NoError(t, err)
	for done := false; err == nil && !done; {
		done, err = pybind.WaitJob(job, 100)
	}
	require.Contains(t, requireKind(t, status.FailedPrecondition, err), "the recording is running; stop it first")
	must.OK(pybind.CloseJob(job))(t)

	must.OK(pybind.Reset())(t)
	counts, err = pybind.CountRecorded(id)
	require.NoError(t, err)
	require.Equal(t, "2 0 0", counts)
	actions := func(csv string) (actions []string) {
		events := must.OK(trace.ParseNumbered(context.Background(), csv))(t)
		for _, e := range events {
			actions = append(actions, e.Action.String())
		}
		return actions
	}
	for range 2 {
		_, err = pybind.StopRecording(id) // it has ended, but exists until it is dropped
		require.NoError(t, err)
		job = must.OK(pybind.OpenRecorded(id))(t)
		result, csv := finish(t, job)
		require.JSONEq(
			t, `{"events": 4, "lost": 0, "pools": {}, "names": {"holders": [["", ""], ["gpuconf", ""]], "frames": [], "stacks": [[]]}}`, result)
		require.Equal(t, []string{"segment_alloc", "allocate", "free", "segment_free"}, actions(csv))
	}

	second := must.OK(pybind.StartRecording(100, false))(t)
	require.NotEqual(t, id, second)
	must.OK(pybind.StopRecording(id))(t)
	initialize(t)
	held = allocate(t, 0, 3000)
	must.OK(pybind.StopRecording(second))(t)
	held.free(t)
	job = must.OK(pybind.OpenRecorded(second))(t)
	result, csv := finish(t, job)
	require.Equal(t, []string{"segment_alloc", "allocate"}, actions(csv))
	var summary struct {
		Events, Lost int
		Pools        map[string][][]any
	}
	require.NoError(t, json.Unmarshal([]byte(result), &summary))
	require.Equal(t, 2, summary.Events)
	require.Len(t, summary.Pools["0"], 1)

	third := must.OK(pybind.StartRecording(100, false))(t)
	for _, drop := range []int64{id, second, third} {
		must.OK(pybind.DropRecording(drop))(t)
		for _, call := range []func() error{
			func() error { _, err := pybind.DropRecording(drop); return err },
			func() error { _, err := pybind.StopRecording(drop); return err },
			func() error { _, err := pybind.CountRecorded(drop); return err },
		} {
			require.Contains(t, requireKind(t, status.InvalidArgument, call()), "there is no recording")
		}
	}
	last := must.OK(pybind.StartRecording(100, false))(t, "the third was dropped while it ran")
	must.OK(pybind.DropRecording(last))(t)
}

func TestPlans(t *testing.T) {
	const job = "Action,Pointer,Size\nallocate,0x1,3000000\nfree,0x1,3000000\n"
	for _, row := range []struct{ name, trace, request, want string }{
		{"a request that is no JSON", job, "{", "decoding"},
		{"an unknown policy", job, `{"policies": ["fast"]}`, `unknown policy "fast"`},
		{"an unknown GPU", job, `{"gpu": "Z80"}`, "lists the models"},
		{"two GPUs", job, `{"gpu": "2xT4"}`, `"2xT4" names 2 GPUs; a plan is for one`},
		{"no granules", job, `{"gpu": "K40", "policies": ["virtual"]}`, "K40 has no virtual memory management"},
		{"a trace that is none", "x", "{}", "line 1: no column Action"},
	} {
		t.Run(row.name, func(t *testing.T) {
			id, err := pybind.OpenPlan(row.request)
			if err == nil {
				_, err = pybind.FeedJob(id, row.trace)
				require.NoError(t, err)
				for done := false; err == nil && !done; {
					done, err = pybind.WaitJob(id, 100)
				}
				require.Equal(t, err, must.Err(pybind.JobResult(id)))
				must.OK(pybind.CloseJob(id))(t)
			}
			require.ErrorContains(t, err, row.want)
		})
	}
	require.Contains(t, requireKind(t, status.InvalidArgument, must.Err(pybind.WaitJob(1<<40, 1))), "there is no job")

	type result struct {
		Policy string
		Fits   *bool
		Least  uint64 `json:"least_limit"`
	}
	type report struct {
		Limit, Memory uint64
		GPU           string
		Results       []result
	}
	yes, no := true, false
	for _, row := range []struct {
		name, request string
		want          report
	}{
		{"nothing asked", "{}",
			report{Results: []result{{"pytorch", nil, 20 << 20}, {"pytorch-expandable", nil, 20 << 20},
				{"pytorch-max-split", nil, 20 << 20}, {"pytorch-roundup", nil, 20 << 20}, {"tensorflow", nil, 3 << 20},
				{"regions", nil, 3 << 20}, {"virtual", nil, 3 << 20}}}},
		{"a GPU without virtual memory management", `{"gpu": "K20:5GiB", "limit": 4194304}`,
			report{Limit: 4 << 20, Memory: 5 << 30, GPU: "Tesla K20m", Results: []result{{"pytorch", &no, 20 << 20},
				{"pytorch-max-split", &no, 20 << 20},
				{"pytorch-roundup", &no, 20 << 20}, {"tensorflow", &yes, 3 << 20}, {"regions", &yes, 3 << 20}}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			id := must.OK(pybind.OpenPlan(row.request))(t)
			must.OK(pybind.FeedJob(id, job[:10]))(t)
			must.OK(pybind.FeedJob(id, job[10:]))(t)
			_, err := pybind.JobResult(id)
			require.Contains(t, requireKind(t, status.FailedPrecondition, err), "the job has not ended yet")
			text, csv := finish(t, id)
			require.Equal(t, trace.Header+"\n", csv, "a plan makes no events")
			var got report
			require.NoError(t, json.Unmarshal([]byte(text), &got))
			require.Equal(t, row.want, got)
			requireKind(t, status.InvalidArgument, must.Err(pybind.JobResult(id)))
		})
	}
}
