package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

func TestScopesInGraphs(t *testing.T) {
	on := func(devices ...string) (scopes []graph.Scope) {
		for _, d := range devices {
			scopes = append(scopes, graph.Scope{Device: d})
		}
		return scopes
	}
	none := graph.Scope{None: true}
	function := func(answer string) graph.Scope { return graph.Scope{Device: answer, Overwrite: true} }
	for _, row := range []struct {
		name   string
		own    string
		scopes []graph.Scope // the outermost first
		want   string
	}{
		{name: "no scope", want: ""},
		{name: "as it is, in its one spelling", scopes: on("/gpu:2"), want: "/device:GPU:2"},
		{name: "stays partial", scopes: on("/job:worker/replica:2"), want: "/job:worker/replica:2"},
		{name: "empty changes nothing", scopes: on("/gpu:1", ""), want: "/device:GPU:1"},
		{name: "the inner one wins", scopes: on("/gpu:1", "/cpu:0"), want: "/device:CPU:0"},
		{name: "outer fields remain", scopes: on("/job:worker/gpu:1", "/task:3"),
			want: "/job:worker/task:3/device:GPU:1"},
		{name: "142: any inside a number", scopes: on("/device:GPU:7", "/device:GPU:*"), want: "/device:GPU:7"},
		{name: "142: a number inside any", scopes: on("/device:CPU:*", "/device:CPU:5"), want: "/device:CPU:5"},
		{name: "143: None breaks the stack", scopes: append(on("/gpu:1"), none), want: ""},
		{name: "143: inside None", scopes: append(append(on("/gpu:1"), none), on("/task:1")...), want: "/task:1"},
		{name: "143: a function outside None", scopes: []graph.Scope{function("/cpu:0"), none}, want: ""},
		{name: "144: a function outermost overwrites", scopes: []graph.Scope{function("/cpu:0"), {Device: "/gpu:1"}},
			want: "/device:CPU:0"},
		{name: "144: but not inside None", scopes: []graph.Scope{function("/cpu:0"), none, {Device: "/gpu:1"}},
			want: "/device:GPU:1"},
		{name: "a function inside is filled in", scopes: []graph.Scope{{Device: "/job:worker/gpu:1"},
			function("/cpu:0")}, want: "/job:worker/device:CPU:0"},
		{name: "the node's request wins", own: "/gpu:3", scopes: on("/gpu:1"), want: "/device:GPU:3"},
		{name: "but not over a function", own: "/gpu:3", scopes: []graph.Scope{function("/gpu:1")},
			want: "/device:GPU:1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := must.OK(graph.Request(row.own, row.scopes))(t)
			require.Equal(t, row.want, got)
		})
	}
	_, err := graph.Request("", on("/gpu:0", "bogus"))
	must.Fail(t, status.InvalidArgument, err,
		"Unknown attribute 'bogus' is encountered while parsing the device spec: 'bogus'.")
	require.Error(t, must.Err(graph.Request("bogus", nil)))
	require.Empty(t, must.OK(graph.Request("", append(on("bogus"), none)))(t))
}
