package graph_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

// BenchmarkPlacement places whole graphs; the time per node must not depend on their size.
func BenchmarkPlacement(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := newMachine(b, 1, cards(4, "T4")...)
			var g graph.Graph
			chain(b, &g, n, 4)
			for b.Loop() {
				must.OK2(graph.NewSession(&g, m.Devices, graph.SessionOptions{}).Run(graph.RunRequest{}))(b)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}

// BenchmarkRun runs graphs of small sums.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := newMachine(b, 1, cards(1, "T4")...)
			var g graph.Graph
			last := sums(b, &g, n)
			s := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
			for b.Loop() {
				out, _ := must.OK2(s.Run(graph.RunRequest{Fetches: []*graph.Node{last}}))(b)
				require.NoError(b, out[0].Release())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}

// sums returns a chain of n sums.
func sums(t require.TestingT, g *graph.Graph, n int) *graph.Node {
	one := constant(t, g, "", "", graph.Shape{2}, 1, 2)
	last := one
	for range n {
		last = apply(t, g, graph.AddN, "", last, one)
	}
	return last
}

func BenchmarkEagerMatMul(b *testing.B) {
	m := newMachine(b, 1)
	made := must.OK(m.Execute(graph.Call{Op: graph.Const, Value: value(gpu.Float32, graph.Shape{2, 2}, 1, 2, 3, 4)}))(b)
	in := []*graph.Tensor{made.Tensor, made.Tensor}
	for b.Loop() {
		product, err := m.Execute(graph.Call{Op: graph.MatMul, Inputs: in, SoftPlacement: true})
		if err != nil {
			b.Fatal(err)
		}
		if err := product.Tensor.Release(); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, made.Tensor.Release())
}
