package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

const unknown = graph.Unknown

func sized(sizes ...int64) graph.Partial { return graph.Partial{Sizes: sizes} }

var unranked = graph.Partial{Unranked: true}

func placeholder(t testing.TB, g *graph.Graph, shape graph.Partial) *graph.Node {
	return add(t, g, graph.NodeSpec{Op: graph.Placeholder, DType: gpu.Float32, Shape: shape})
}

// What is known of a result follows from what is known of its operands. The texts are TensorFlow's.
func TestPartialShapes(t *testing.T) {
	for _, row := range []struct {
		name string
		spec graph.NodeSpec
		in   []graph.Partial
		want graph.Partial
		text string
	}{
		{name: "sum of the unknown", spec: graph.NodeSpec{Op: graph.Add}, in: []graph.Partial{unranked, sized(2)},
			want: unranked},
		{name: "sum with a scalar", spec: graph.NodeSpec{Op: graph.Add}, in: []graph.Partial{sized(unknown, 3),
			sized()}, want: sized(unknown, 3)},
		{name: "sum with a row", spec: graph.NodeSpec{Op: graph.Add},
			in: []graph.Partial{sized(3), sized(unknown, unknown)}, want: sized(unknown, 3)},
		{name: "sum with one", spec: graph.NodeSpec{Op: graph.Add}, in: []graph.Partial{sized(unknown), sized(1)},
			want: sized(unknown)},
		{name: "sum with none", spec: graph.NodeSpec{Op: graph.Add}, in: []graph.Partial{sized(0), sized(unknown)},
			want: sized(unknown)},
		{name: "sum of two unknown sizes", spec: graph.NodeSpec{Op: graph.Add}, in: []graph.Partial{sized(unknown),
			sized(unknown)}, want: sized(unknown)},
		{name: "sum that cannot be", spec: graph.NodeSpec{Op: graph.Add},
			in:   []graph.Partial{sized(unknown, 3), sized(2)},
			text: "Dimensions must be equal, but are 3 and 2 for 'Add' (op: 'Add') with input shapes: [?,3], [2]."},
		{name: "product", spec: graph.NodeSpec{Op: graph.MatMul}, in: []graph.Partial{sized(unknown, 3), unranked},
			want: sized(unknown, unknown)},
		{name: "transposed product", spec: graph.NodeSpec{Op: graph.MatMul, TransposeA: true},
			in: []graph.Partial{sized(unknown, 3), sized(unknown, 4)}, want: sized(3, 4)},
		{name: "product that cannot be", spec: graph.NodeSpec{Op: graph.MatMul}, in: []graph.Partial{sized(unknown, 3),
			sized(1, unknown)},
			text: "Dimensions must be equal, but are 3 and 1 for 'MatMul' (op: 'MatMul') with input shapes: [?,3], " +
				"[1,?]."},
		{name: "product of a vector", spec: graph.NodeSpec{Op: graph.MatMul},
			in:   []graph.Partial{sized(unknown), unranked},
			text: "Shape must be rank 2 but is rank 1 for 'MatMul' (op: 'MatMul') with input shapes: [?], ?."},
		{name: "sum of all", spec: graph.NodeSpec{Op: graph.AddN}, in: []graph.Partial{unranked, sized(unknown, 3),
			sized(2, unknown)}, want: sized(2, 3)},
		{name: "sum of all that cannot be", spec: graph.NodeSpec{Op: graph.AddN}, in: []graph.Partial{sized(unknown, 2),
			sized(unknown, 3)},
			text: "Dimension 1 in both shapes must be equal, but are 2 and 3. Shapes are [?,2] and [?,3].\n\tFrom " +
				"merging shape 0 with other shapes. for 'AddN' (op: 'AddN') with input shapes: [?,2], [?,3]."},
		{name: "copy", spec: graph.NodeSpec{Op: graph.Identity}, in: []graph.Partial{unranked}, want: unranked},
	} {
		t.Run(row.name, func(t *testing.T) {
			var g graph.Graph
			spec := row.spec
			for _, shape := range row.in {
				spec.Inputs = append(spec.Inputs, placeholder(t, &g, shape))
			}
			n, err := g.Add(spec)
			if row.text != "" {
				require.ErrorContains(t, err, row.text)
				must.Fail(t, status.InvalidArgument, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, n.Shape())
		})
	}
}

func TestPlaceholdersThatCannotBe(t *testing.T) {
	var g graph.Graph
	for _, spec := range []graph.NodeSpec{
		{Shape: sized(2)},
		{DType: gpu.Float32, Shape: sized(-2)},
		{DType: gpu.Float32, Shape: sized(unknown, -2)},
		{DType: gpu.Float32, Shape: graph.Partial{Sizes: make(graph.Shape, 255)}},
		{DType: gpu.Float32, Shape: sized(1<<40, 1<<40)},
		{DType: gpu.Float32, Inputs: []*graph.Node{zeros(t, &g, gpu.Float32, 1)}},
	} {
		spec.Op = graph.Placeholder
		require.Error(t, must.Err(g.Add(spec)))
	}
	require.Equal(t, 1, size(&g))
}

// Shapes that a run finds not to fit are errors of that run, with the texts of TensorFlow's kernels, before anything is
// executed.
func TestRunsWithPlaceholders(t *testing.T) {
	m := newMachine(t, 1, cards(1, "T4")...)
	var g graph.Graph
	u := add(t, &g, graph.NodeSpec{Op: graph.Placeholder, Name: "u", DType: gpu.Float32, Shape: unranked})
	k := add(t, &g, graph.NodeSpec{Op: graph.Placeholder, Name: "k", DType: gpu.Float32, Shape: sized(unknown, 2)})
	sum := add(t, &g, graph.NodeSpec{Op: graph.Add, Inputs: []*graph.Node{u, k}})
	product := add(t, &g, graph.NodeSpec{Op: graph.MatMul, Inputs: []*graph.Node{k, u}})
	all := add(t, &g, graph.NodeSpec{Op: graph.AddN, Inputs: []*graph.Node{u, zeros(t, &g, gpu.Float32, 1, 2)}})
	require.Equal(t, sized(1, 2), all.Shape())
	s := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	fed := func(n *graph.Node, shape ...int64) graph.Feed {
		return graph.Feed{Node: n, Value: value(gpu.Float32, shape, make([]float64, elements(shape))...)}
	}
	for _, row := range []struct {
		name    string
		request graph.RunRequest
		want    graph.Shape
		text    string
	}{
		{name: "sum", request: graph.RunRequest{Fetches: []*graph.Node{sum},
			Feeds: []graph.Feed{fed(u, 2), fed(k, 5, 2)}}, want: graph.Shape{5, 2}},
		{name: "sum of a scalar", request: graph.RunRequest{Fetches: []*graph.Node{sum},
			Feeds: []graph.Feed{fed(u), fed(k, 0, 2)}}, want: graph.Shape{0, 2}},
		{name: "product", request: graph.RunRequest{Fetches: []*graph.Node{product},
			Feeds: []graph.Feed{fed(u, 2, 7), fed(k, 3, 2)}}, want: graph.Shape{3, 7}},
		{name: "what is fed", request: graph.RunRequest{Fetches: []*graph.Node{u}, Feeds: []graph.Feed{fed(u, 4)}},
			want: graph.Shape{4}},
		{name: "sum that does not fit", request: graph.RunRequest{Fetches: []*graph.Node{sum},
			Feeds: []graph.Feed{fed(u, 3), fed(k, 5, 2)}},
			text: "Incompatible shapes: [3] vs. [5,2]\n\t [[Node: Add = "},
		{name: "product that does not fit", request: graph.RunRequest{Fetches: []*graph.Node{product},
			Feeds: []graph.Feed{fed(u, 3, 3), fed(k, 5, 2)}},
			text: "Matrix size-incompatible: In[0]: [5,2], In[1]: [3,3]"},
		{name: "product of a vector", request: graph.RunRequest{Fetches: []*graph.Node{product},
			Feeds: []graph.Feed{fed(u, 3), fed(k, 5, 2)}},
			text: "In[1] is not a matrix. Instead it has shape [3]"},
		{name: "a known shape that is another one now", request: graph.RunRequest{Fetches: []*graph.Node{all},
			Feeds: []graph.Feed{fed(u, 3)}},
			text: "Inputs to operation AddN of type AddN must have the same size and shape.  Input 0: [3] != input " +
				"1: [1,2]"},
		{name: "nothing fed", request: graph.RunRequest{Fetches: []*graph.Node{k}},
			text: "You must feed a value for placeholder tensor 'k' with dtype float and shape [?,2]\n\t [[Node: k " +
				"= Placeholder[dtype=DT_FLOAT, shape=[?,2], _device="},
		{name: "nothing fed of any shape", request: graph.RunRequest{Fetches: []*graph.Node{sum},
			Feeds: []graph.Feed{fed(k, 1, 2)}},
			text: "You must feed a value for placeholder tensor 'u' with dtype float\n\t [[Node: u = " +
				"Placeholder[dtype=DT_FLOAT, shape=<unknown>"},
		{name: "a target is executed, fed or not", request: graph.RunRequest{Targets: []*graph.Node{k},
			Feeds: []graph.Feed{fed(k, 1, 2)}},
			text: "You must feed a value for placeholder tensor 'k'"},
		{name: "another shape than that of the placeholder", request: graph.RunRequest{Fetches: []*graph.Node{k},
			Feeds: []graph.Feed{fed(k, 1, 3)}},
			text: `Cannot feed value of shape [1,3] and type float (12 bytes) for Tensor("k:0", shape=(None, 2), dtype=float32)`},
		{name: "another number of sizes", request: graph.RunRequest{Fetches: []*graph.Node{k},
			Feeds: []graph.Feed{fed(k, 2)}},
			text: "Cannot feed value of shape [2]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			shapes, err := s.Shapes(row.request)
			m.faults.sizes = nil
			if row.text == "" {
				require.NoError(t, err)
				require.Equal(t, []graph.Shape{row.want}, shapes)
				out, _ := must.OK2(s.Run(row.request))(t)
				require.Equal(t, row.want, out[0].Shape())
				require.NoError(t, out[0].Release())
				return
			}
			require.ErrorContains(t, err, row.text)
			must.Fail(t, status.InvalidArgument, err)
			require.EqualError(t, must.Err2(s.Run(row.request)), err.Error())
			require.Empty(t, m.faults.sizes, "nothing was executed")
		})
	}
	require.Equal(t, []uint64{0, 0}, m.inUse())
}

// A graph computes the same from fed placeholders as from constants, whatever is known of their shapes.
func TestRandomPlaceholders(t *testing.T) {
	m := newMachine(t, 2, cards(3, "T4")...)
	rapid.Check(t, func(r *rapid.T) {
		var constants, g graph.Graph
		var nodes []model
		var fed []graph.Feed
		twin := map[*graph.Node]*graph.Node{}
		twins := func(list []*graph.Node) (found []*graph.Node) {
			for _, n := range list {
				found = append(found, twin[n])
			}
			return found
		}
		for i := range rapid.IntRange(1, 20).Draw(r, "nodes") {
			one := drawNode(r, &constants, nodes, i, true)
			nodes = append(nodes, one)
			spec := one.spec
			spec.Inputs, spec.Controls = twins(spec.Inputs), twins(spec.Controls)
			if spec.Op == graph.Const {
				spec.Op, spec.DType, spec.Shape = graph.Placeholder, spec.Value.DType, hidden(r, spec.Value.Shape)
			}
			twin[one.node] = add(r, &g, spec)
			if spec.Op == graph.Placeholder {
				fed = append(fed, graph.Feed{Node: twin[one.node], Value: value(spec.DType, spec.Value.Shape,
					one.numbers...)})
			}
			requireCovers(r, twin[one.node].Shape(), one.node.Shape().Sizes)
		}
		s := graph.NewSession(&g, m.Devices, graph.SessionOptions{SoftPlacement: true})
		var request graph.RunRequest
		var want []model
		for range rapid.IntRange(1, 4).Draw(r, "fetches") {
			want = append(want, rapid.SampledFrom(nodes).Draw(r, "fetch"))
			request.Fetches = append(request.Fetches, twin[want[len(want)-1].node])
		}
		request.Feeds = fed
		before := m.inUse()
		shapes := must.OK(s.Shapes(request))(r)
		out, _ := must.OK2(s.Run(request))(r)
		for i, tensor := range out {
			shape := want[i].node.Shape().Sizes
			require.True(r, shape.Equal(shapes[i]))
			requireSame(r, graph.Value{DType: tensor.DType(), Shape: shape,
				Bytes: value(tensor.DType(), nil, want[i].numbers...).Bytes}, content(r, tensor))
		}
		require.Equal(r, before, m.inUse())
	})
}

// hidden draws what is known of a shape.
func hidden(r *rapid.T, shape graph.Shape) graph.Partial {
	if rapid.IntRange(0, 3).Draw(r, "unranked") == 0 {
		return unranked
	}
	known := graph.Partial{Sizes: append(graph.Shape{}, shape...)}
	for i := range known.Sizes {
		if rapid.Bool().Draw(r, "hidden") {
			known.Sizes[i] = unknown
		}
	}
	return known
}

// requireCovers checks that what is known of a shape is true.
func requireCovers(r *rapid.T, known graph.Partial, shape graph.Shape) {
	if known.Unranked {
		return
	}
	require.Len(r, known.Sizes, len(shape))
	for i, size := range known.Sizes {
		if size != unknown {
			require.Equal(r, shape[i], size)
		}
	}
}

// NoOp has no tensor: it runs, others can wait for it, and nothing can read or fetch it.
func TestNoOp(t *testing.T) {
	m := newMachine(t, 1, cards(1, "T4")...)
	var g graph.Graph
	first := zeros(t, &g, gpu.Float32, 1)
	n := add(t, &g, graph.NodeSpec{Op: graph.NoOp, Name: "init", Controls: []*graph.Node{first}})
	require.False(t, n.HasTensor())
	after := add(t, &g, graph.NodeSpec{Op: graph.Identity, Inputs: []*graph.Node{first}, Controls: []*graph.Node{n}})
	s := graph.NewSession(&g, m.Devices, graph.SessionOptions{LogPlacement: true})
	_, stats := run(t, s, graph.RunRequest{Targets: []*graph.Node{n}})
	require.Equal(t, 2, stats.Nodes)
	numbers, stats := run(t, s, graph.RunRequest{Fetches: []*graph.Node{after}})
	require.Equal(t, [][]float64{{0}}, numbers)
	require.Equal(t, 3, stats.Nodes)
	require.Contains(t, s.DrainLog(), "init: /job:localhost/replica:0/task:0/gpu:0")

	_, _, err := s.Run(graph.RunRequest{Fetches: []*graph.Node{n}})
	require.ErrorContains(t, err, "init has no tensor to fetch")
	_, err = g.Add(graph.NodeSpec{Op: graph.Identity, Inputs: []*graph.Node{n}})
	require.ErrorContains(t, err, "init has no tensor that Identity can read")
	_, err = g.Add(graph.NodeSpec{Op: graph.NoOp, Inputs: []*graph.Node{first}})
	require.ErrorContains(t, err, "NoOp takes 0 inputs, not 1")

	must.OK(g.Add(graph.NodeSpec{Op: graph.NoOp, Name: "far", Device: "/gpu:7"}))(t)
	_, _, err = s.Run(graph.RunRequest{Targets: []*graph.Node{n}})
	require.ErrorContains(t, err, `[[Node: far = NoOp[_device="/gpu:7"]()]]`)

	for _, op := range []graph.Op{graph.NoOp, graph.Placeholder} {
		_, err = m.Devices.Execute(graph.Call{Op: op})
		require.Equal(t, status.NotFound, status.CodeOf(err), "there is nothing to execute eagerly")
	}
}

func elements(sizes []int64) int64 {
	n := int64(1)
	for _, size := range sizes {
		n *= size
	}
	return n
}
