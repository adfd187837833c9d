package pybind_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/status"
	"gpuconf/gocore/trace"
	"gpuconf/pybind"
)

func TestARecordingOutlivesTheDevices(t *testing.T) {
	onMachine(t, "T4:1GiB")
	_, _ = pybind.StopRecording() // another test's, which calls everything with anything
	_, err := pybind.StopRecording()
	require.Contains(t, requireKind(t, status.FailedPrecondition, err), "no recording is running")
	_, err = pybind.StartRecording(0)
	require.Contains(t, requireKind(t, status.InvalidArgument, err), "1 to")
	_, err = pybind.StartRecording(100)
	require.NoError(t, err)
	_, err = pybind.StartRecording(100)
	require.Contains(t, requireKind(t, status.FailedPrecondition, err), "running already")
	for range 2 {
		initialize(t)
		held, err := pybind.Allocate(0, 1000)
		require.NoError(t, err)
		parseBlock(t, held).free(t)
		_, err = pybind.Reset()
		require.NoError(t, err)
	}
	counts, err := pybind.CountRecorded()
	require.NoError(t, err)
	require.Equal(t, "4 0", counts)
	initialize(t)
	held, err := pybind.Allocate(0, 3000)
	require.NoError(t, err)
	recorded, err := pybind.StopRecording()
	require.NoError(t, err)
	parseBlock(t, held).free(t)

	head, csv, _ := strings.Cut(recorded, "\n")
	var told struct {
		Lost  int
		Pools map[string][][]any
	}
	require.NoError(t, json.Unmarshal([]byte(head), &told))
	require.Zero(t, told.Lost)
	require.Len(t, told.Pools["0"], 1)
	events, err := trace.ParseCSV(csv)
	require.NoError(t, err)
	var actions []string
	for _, e := range events {
		actions = append(actions, e.Action.String())
	}
	session := []string{"segment_alloc", "allocate", "free", "segment_free"}
	require.Equal(t, append(append(session, session...), "segment_alloc", "allocate"), actions)
	again, err := pybind.ReadTrace(csv)
	require.NoError(t, err)
	require.Equal(t, csv, again)
}

func TestPlans(t *testing.T) {
	const job = "Action,Pointer,Size\nallocate,0x1,3000000\nfree,0x1,3000000\n"
	for _, row := range []struct{ name, trace, request, want string }{
		{"a request that is no JSON", job, "{", "decoding"},
		{"an unknown policy", job, `{"policies": ["fast"]}`, `unknown policy "fast"`},
		{"an unknown GPU", job, `{"gpu": "Z80"}`, "known models"},
		{"two GPUs", job, `{"gpu": "2xT4"}`, `"2xT4" names 2 GPUs; a plan is for one`},
		{"no granules", job, `{"gpu": "K40", "policies": ["virtual"]}`, "K40 has no virtual memory management"},
		{"a trace that is none", "x", "{}", "line 1: no column Action"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := pybind.OpenPlan(row.trace, row.request)
			require.ErrorContains(t, err, row.want)
		})
	}
	_, err := pybind.ContinuePlan(1<<40, 1)
	require.Contains(t, requireKind(t, status.NotFound, err), "there is no plan")

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
		{"nothing asked", "{}", report{Results: []result{{"tensorflow", nil, 3 << 20}, {"regions", nil, 3 << 20}, {"virtual", nil, 3 << 20}}}},
		{"a limit", `{"limit": 2000000, "policies": ["virtual"]}`, report{Limit: 2000000, Results: []result{{"virtual", &no, 3 << 20}}}},
		{"a GPU's own limit", `{"gpu": "T4", "policies": ["regions"]}`,
			report{Limit: 16<<30 - 1050<<20, Memory: 16 << 30, GPU: "Tesla T4", Results: []result{{"regions", &yes, 3 << 20}}}},
		{"a GPU's own limit, with the environment", `{"gpu": "T4", "policies": ["regions"], "env": {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "2"}}`,
			report{Limit: 16<<30 - 2<<20, Memory: 16 << 30, GPU: "Tesla T4", Results: []result{{"regions", &yes, 3 << 20}}}},
		{"a GPU without virtual memory management", `{"gpu": "K20", "limit": 4194304}`,
			report{Limit: 4 << 20, Memory: 5 << 30, GPU: "Tesla K20m", Results: []result{{"tensorflow", &yes, 3 << 20}, {"regions", &yes, 3 << 20}}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			opened, err := pybind.OpenPlan(job, row.request)
			require.NoError(t, err)
			var plan struct{ Plan int64 }
			require.NoError(t, json.Unmarshal([]byte(opened), &plan))
			text := ""
			for text == "" {
				text, err = pybind.ContinuePlan(plan.Plan, 0)
				require.NoError(t, err)
			}
			var got report
			require.NoError(t, json.Unmarshal([]byte(text), &got))
			require.Equal(t, row.want, got)
			_, err = pybind.ClosePlan(plan.Plan)
			require.NoError(t, err)
			_, err = pybind.ContinuePlan(plan.Plan, 0)
			requireKind(t, status.NotFound, err)
		})
	}
}
