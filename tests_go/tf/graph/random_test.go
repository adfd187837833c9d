package graph_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

// model is a node with its expected value. All numbers are so small that every type represents them exactly.
type model struct {
	node    *graph.Node
	spec    graph.NodeSpec
	numbers []float64
	bound   float64 // no finite element is larger
	device  string
	needs   map[int]bool // the nodes that it needs, itself included
}

const exact = 1 << 20

// naive evaluates an operation element by element.
func naive(op graph.Op, spec graph.NodeSpec, out graph.Shape, in []model) (numbers []float64) {
	at := func(m model, index ...int64) float64 {
		offset := int64(0)
		shape := m.node.Shape().Sizes
		for i, size := range shape {
			where := index[len(index)-len(shape)+i]
			if size == 1 {
				where = 0
			}
			offset = offset*size + where
		}
		return m.numbers[offset]
	}
	walk(out, func(index []int64) {
		sum := 0.0
		switch op {
		case graph.MatMul:
			inner := in[0].node.Shape().Sizes[1]
			if spec.TransposeA {
				inner = in[0].node.Shape().Sizes[0]
			}
			for l := range inner {
				a, b := []int64{index[0], l}, []int64{l, index[1]}
				if spec.TransposeA {
					a[0], a[1] = a[1], a[0]
				}
				if spec.TransposeB {
					b[0], b[1] = b[1], b[0]
				}
				sum += element(in[0], a) * element(in[1], b)
			}
		default:
			for _, m := range in {
				sum += at(m, index...)
			}
		}
		numbers = append(numbers, sum)
	})
	return numbers
}

// element returns an element of a matrix.
func element(m model, index []int64) float64 {
	return m.numbers[index[0]*m.node.Shape().Sizes[1]+index[1]]
}

// walk visits every index of a shape in row-major order.
func walk(shape graph.Shape, visit func([]int64)) {
	index := make([]int64, len(shape))
	var loop func(int)
	loop = func(i int) {
		if i == len(shape) {
			visit(index)
			return
		}
		for index[i] = 0; index[i] < shape[i]; index[i]++ {
			loop(i + 1)
		}
	}
	loop(0)
}

func TestRandomGraphs(t *testing.T) {
	m := newMachine(t, 2, cards(3, "T4")...)
	rapid.Check(t, func(r *rapid.T) {
		var g graph.Graph
		soft := rapid.Bool().Draw(r, "soft")
		var nodes []model
		for i := range rapid.IntRange(1, 25).Draw(r, "nodes") {
			nodes = append(nodes, drawNode(r, &g, nodes, i, soft))
		}
		s := graph.NewSession(&g, m.Devices, graph.SessionOptions{SoftPlacement: soft, LogPlacement: true})
		before := m.inUse()
		for range rapid.IntRange(1, 3).Draw(r, "runs") {
			var fetches []*graph.Node
			var want []model
			needs := map[int]bool{}
			for range rapid.IntRange(0, 4).Draw(r, "fetches") {
				pick := rapid.SampledFrom(nodes).Draw(r, "fetch")
				fetches, want = append(fetches, pick.node), append(want, pick)
				for id := range pick.needs {
					needs[id] = true
				}
			}
			var targets []*graph.Node
			for range rapid.IntRange(0, 2).Draw(r, "targets") {
				pick := rapid.SampledFrom(nodes).Draw(r, "target")
				targets = append(targets, pick.node)
				for id := range pick.needs {
					needs[id] = true
				}
			}
			out, stats := must.OK2(s.Run(graph.RunRequest{Fetches: fetches, Targets: targets}))(r)
			require.Equal(r, len(needs), stats.Nodes)
			require.LessOrEqual(r, stats.Copies, 4*len(needs))
			for i, tensor := range out {
				requireSame(r, graph.Value{DType: want[i].node.DType(), Shape: want[i].node.Shape().Sizes,
					Bytes: value(want[i].node.DType(), nil, want[i].numbers...).Bytes}, content(r, tensor))
			}
			require.Equal(r, before, m.inUse())
		}
		again := graph.NewSession(&g, m.Devices, graph.SessionOptions{SoftPlacement: soft, LogPlacement: true})
		must.OK2(again.Run(graph.RunRequest{}))(r)
		require.Equal(r, again.DrainLog(), s.DrainLog())
		for _, n := range nodes {
			if n.device != "" && !soft {
				require.Equal(r, n.device, whereIs(r, s, n.node))
			}
		}
	})
}

// drawNode adds a constant, or an operation on earlier nodes that fit together.
func drawNode(r *rapid.T, g *graph.Graph, nodes []model, i int, soft bool) model {
	spec, in := drawOperands(r, nodes, i)
	var made model
	made.bound = 1
	if spec.Op == graph.Const {
		spec.Value, made.numbers = drawValue(r, i)
	} else {
		made.bound = boundOf(spec, in)
	}
	if spec.Op != graph.Const && made.bound > exact {
		spec, in = graph.NodeSpec{Op: graph.Identity, Inputs: spec.Inputs[:1]}, in[:1]
		made.bound = in[0].bound
	}
	highest := 2
	if soft {
		highest = 5
	}
	switch rapid.IntRange(0, 3).Draw(r, fmt.Sprint("on ", i)) {
	case 0:
		made.device = fmt.Sprintf("CPU:%d", rapid.IntRange(0, highest-1).Draw(r, "cpu"))
	case 1:
		dtype := spec.Value.DType
		if len(in) > 0 {
			dtype = in[0].node.DType()
		}
		if soft || spec.Op != graph.MatMul || dtype != gpu.Int32 {
			made.device = fmt.Sprintf("GPU:%d", rapid.IntRange(0, highest).Draw(r, "gpu"))
		}
	}
	waits, before := map[int]bool{}, in
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(r, fmt.Sprint("controls of ", i)) {
		if len(nodes) == 0 {
			break
		}
		control := rapid.SampledFrom(nodes).Draw(r, "control")
		if id := control.node.ID(); !waits[id] {
			waits[id] = true
			spec.Controls = append(spec.Controls, control.node)
			before = append(before, control)
		}
	}
	if made.device != "" {
		spec.Device = "/device:" + made.device
	}
	made.node, made.spec = add(r, g, spec), spec
	made.needs = map[int]bool{made.node.ID(): true}
	for _, input := range before {
		for id := range input.needs {
			made.needs[id] = true
		}
	}
	if spec.Op != graph.Const {
		made.numbers = naive(spec.Op, spec, made.node.Shape().Sizes, in)
	}
	return made
}

// drawOperands picks an operation and suitable operands: a constant if none fit.
func drawOperands(r *rapid.T, nodes []model, i int) (graph.NodeSpec, []model) {
	spec := graph.NodeSpec{Op: rapid.SampledFrom([]graph.Op{graph.Const, graph.MatMul, graph.AddN, graph.Add,
		graph.Identity}).Draw(r, fmt.Sprint("op ", i))}
	if spec.Op == graph.Const || len(nodes) == 0 {
		return graph.NodeSpec{Op: graph.Const}, nil
	}
	spec.TransposeA, spec.TransposeB = rapid.Bool().Draw(r, "ta"), rapid.Bool().Draw(r, "tb")
	count := map[graph.Op]int{graph.MatMul: 2, graph.Add: 2, graph.Identity: 1, graph.AddN: rapid.IntRange(1, 4).Draw(r,
		"n")}[spec.Op]
	first := rapid.SampledFrom(nodes).Draw(r, "first")
	in := []model{first}
	for len(in) < count {
		var fitting []model
		for _, n := range nodes {
			if n.node.DType() == first.node.DType() && suits(spec, first.node.Shape().Sizes, n.node.Shape().Sizes) {
				fitting = append(fitting, n)
			}
		}
		if len(fitting) == 0 {
			return graph.NodeSpec{Op: graph.Const}, nil
		}
		in = append(in, rapid.SampledFrom(fitting).Draw(r, "next"))
	}
	for _, n := range in {
		spec.Inputs = append(spec.Inputs, n.node)
	}
	return spec, in
}

func suits(spec graph.NodeSpec, a, b graph.Shape) bool {
	switch spec.Op {
	case graph.MatMul:
		if len(a) != 2 || len(b) != 2 {
			return false
		}
		inner, innerB := a[1], b[0]
		if spec.TransposeA {
			inner = a[0]
		}
		if spec.TransposeB {
			innerB = b[1]
		}
		return inner == innerB
	case graph.Add:
		for i := 1; i <= min(len(a), len(b)); i++ {
			x, y := a[len(a)-i], b[len(b)-i]
			if x != y && x != 1 && y != 1 {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// boundOf returns how large a result's elements can be.
func boundOf(spec graph.NodeSpec, in []model) float64 {
	if spec.Op == graph.MatMul {
		return 4 * in[0].bound * in[1].bound // no inner dimension is longer
	}
	sum := 0.0
	for _, n := range in {
		sum += n.bound
	}
	return sum
}

// drawValue draws a small tensor of small numbers, sometimes with one that is not finite.
func drawValue(r *rapid.T, i int) (graph.Value, []float64) {
	dtype := rapid.SampledFrom([]gpu.DType{gpu.Float32, gpu.Float32, gpu.Float64, gpu.Int32}).Draw(
		r, fmt.Sprint("type ", i))
	shape := graph.Shape(rapid.SliceOfN(rapid.Int64Range(0, 4), 0, 3).Draw(r, "shape"))
	if rapid.IntRange(0, 2).Draw(r, "matrix") > 0 {
		shape = graph.Shape(rapid.SliceOfN(rapid.Int64Range(1, 3), 2, 2).Draw(r, "matrix shape"))
	}
	var numbers []float64
	walk(shape, func([]int64) { numbers = append(numbers, float64(rapid.IntRange(-1, 1).Draw(r, "number"))) })
	if dtype != gpu.Int32 && len(numbers) > 0 && rapid.IntRange(0, 5).Draw(r, "odd") == 0 {
		numbers[0] = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}).Draw(r, "which")
	}
	return value(dtype, shape, numbers...), numbers
}
