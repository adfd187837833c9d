package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
)

// With PlacePruned a run places only the nodes that it executes, and a fed node may request any device.
func TestOnlyWhatRunsIsPlaced(t *testing.T) {
	m := newMachine(t, 1)
	var g graph.Graph
	n := script(t, &g, "a = Const @ /gpu:7\nb = Const @ /cpu:0\nc = MatMul b b\nd = MatMul a b\n")
	session := graph.NewSession(&g, m.Devices, graph.SessionOptions{PlacePruned: true, LogPlacement: true})
	session.DrainLog()
	run := func(request graph.RunRequest) error {
		out, _, err := session.Run(request)
		for _, each := range out {
			each.Release()
		}
		return err
	}
	for range 2 {
		require.NoError(t, run(graph.RunRequest{Fetches: []*graph.Node{n["c"]}}))
	}
	require.Len(t, session.DrainLog(), 2, "each node is logged once")
	require.ErrorContains(t, run(graph.RunRequest{Fetches: []*graph.Node{n["d"]}}),
		"Cannot assign a device to node 'a'")
	fed := graph.Feed{Node: n["a"], Value: value(gpu.Float32, graph.Shape{2, 2}, 2, 2, 2, 2)}
	require.NoError(t, run(graph.RunRequest{Fetches: []*graph.Node{n["d"]}, Feeds: []graph.Feed{fed}}))
}
