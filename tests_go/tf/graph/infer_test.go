package graph_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

// zeros returns a constant of any shape, made from one element.
func zeros(t *testing.T, g *graph.Graph, dtype gpu.DType, shape ...int64) *graph.Node {
	return add(t, g, graph.NodeSpec{Op: graph.Const, Value: value(dtype, shape, 0)})
}

func TestShapes(t *testing.T) {
	f32 := func(shapes ...graph.Shape) []graph.Value {
		var values []graph.Value
		for _, s := range shapes {
			values = append(values, value(gpu.Float32, s, 0))
		}
		return values
	}
	typed := func(types ...gpu.DType) []graph.Value {
		var values []graph.Value
		for _, d := range types {
			values = append(values, value(d, graph.Shape{2, 2}, 0))
		}
		return values
	}
	s := func(sizes ...int64) graph.Shape { return graph.Shape(sizes) }
	for _, row := range []struct {
		name   string
		spec   graph.NodeSpec
		in     []graph.Value
		want   graph.Shape // nil for an error
		code   status.Code
		text   string // in a graph
		eager  string // eagerly
		eagerC status.Code
	}{
		{name: "product", spec: graph.NodeSpec{Op: graph.MatMul}, in: f32(s(2, 3), s(3, 5)), want: s(2, 5)},
		{name: "first transposed", spec: graph.NodeSpec{Op: graph.MatMul, TransposeA: true}, in: f32(s(3, 2), s(3, 5)),
			want: s(2, 5)},
		{name: "second transposed", spec: graph.NodeSpec{Op: graph.MatMul, TransposeB: true}, in: f32(s(2, 3), s(5, 3)),
			want: s(2, 5)},
		{name: "both transposed", spec: graph.NodeSpec{Op: graph.MatMul, TransposeA: true, TransposeB: true},
			in: f32(s(3, 2), s(5, 3)), want: s(2, 5)},
		{name: "empty inside", spec: graph.NodeSpec{Op: graph.MatMul}, in: f32(s(2, 0), s(0, 5)), want: s(2, 5)},
		{name: "empty outside", spec: graph.NodeSpec{Op: graph.MatMul}, in: f32(s(0, 3), s(3, 5)), want: s(0, 5)},
		{name: "product that doesn't fit", spec: graph.NodeSpec{Op: graph.MatMul}, in: f32(s(2, 3), s(2, 3)),
			code: status.InvalidArgument,
			text: "Dimensions must be equal, but are 3 and 2 for 'MatMul' (op: 'MatMul') with input shapes: [2,3], " +
				"[2,3].",
			eager: "Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3] [Op:MatMul] name: "},
		{name: "transposed product that doesn't fit", spec: graph.NodeSpec{Op: graph.MatMul, TransposeA: true},
			in: f32(s(2, 3), s(3, 3)), code: status.InvalidArgument,
			text: "Dimensions must be equal, but are 2 and 3 for 'MatMul' (op: 'MatMul') with input shapes: [2,3], " +
				"[3,3].",
			eager: "Matrix size-incompatible: In[0]: [2,3], In[1]: [3,3] [Op:MatMul] name: "},
		{name: "product of a vector", spec: graph.NodeSpec{Op: graph.MatMul}, in: f32(s(3), s(3, 2)),
			code:  status.InvalidArgument,
			text:  "Shape must be rank 2 but is rank 1 for 'MatMul' (op: 'MatMul') with input shapes: [3], [3,2].",
			eager: "In[0] is not a matrix. Instead it has shape [3]"},
		{name: "product with a scalar", spec: graph.NodeSpec{Op: graph.MatMul}, in: f32(s(2, 2), s()),
			code:  status.InvalidArgument,
			text:  "Shape must be rank 2 but is rank 0 for 'MatMul' (op: 'MatMul') with input shapes: [2,2], [].",
			eager: "In[1] is not a matrix. Instead it has shape []"},
		{name: "product of types", spec: graph.NodeSpec{Op: graph.MatMul}, in: typed(gpu.Float32, gpu.Int32),
			code: status.InvalidType,
			text: "Input 'b' of 'MatMul' Op has type int32 that does not match type float32 of argument 'a'.",
			eager: "cannot compute MatMul as input #1(zero-based) was expected to be a float tensor but is a int32 " +
				"tensor [Op:MatMul] name: ", eagerC: status.InvalidArgument},
		{name: "product of one", spec: graph.NodeSpec{Op: graph.MatMul}, in: f32(s(2, 2)), code: status.InvalidArgument,
			text: "MatMul takes 2 inputs, not 1", eager: "MatMul takes 2 inputs, not 1"},
		{name: "sum of one", spec: graph.NodeSpec{Op: graph.AddN}, in: f32(s(2, 2)), want: s(2, 2)},
		{name: "sum of three", spec: graph.NodeSpec{Op: graph.AddN}, in: f32(s(4), s(4), s(4)), want: s(4)},
		{name: "sum of none", spec: graph.NodeSpec{Op: graph.AddN}, code: status.InvalidArgument,
			text:  "inputs must be a list of at least one Tensor",
			eager: "inputs must be a list of at least one Tensor"},
		{name: "sum of ranks", spec: graph.NodeSpec{Op: graph.AddN}, in: f32(s(2, 2), s(2)),
			code: status.InvalidArgument,
			text: "Shapes must be equal rank, but are 2 and 1\n\tFrom merging shape 0 with other shapes. for " +
				"'AddN' (op: 'AddN') with input shapes: [2,2], [2].",
			eager: "Inputs to operation AddN of type AddN must have the same size and shape.  Input 0: [2,2] != " +
				"input 1: [2]"},
		{name: "sum of sizes", spec: graph.NodeSpec{Op: graph.AddN}, in: f32(s(2, 2), s(2, 2), s(2, 3)),
			code: status.InvalidArgument,
			text: "Dimension 1 in both shapes must be equal, but are 2 and 3. Shapes are [2,2] and [2,3].\n\tFrom " +
				"merging shape 1 with other shapes. for 'AddN' (op: 'AddN') with input shapes: [2,2], [2,2], [2,3].",
			eager: "Input 0: [2,2] != input 2: [2,3]"},
		{name: "sum of types", spec: graph.NodeSpec{Op: graph.AddN}, in: typed(gpu.Float32, gpu.Float64),
			code: status.InvalidType,
			text: "Tensors in list passed to 'inputs' of 'AddN' Op have types [float32, float64] that don't all " +
				"match.",
			eager: "expected to be a float tensor but is a double tensor", eagerC: status.InvalidArgument},
		{name: "addition", spec: graph.NodeSpec{Op: graph.Add}, in: f32(s(2, 3), s(2, 3)), want: s(2, 3)},
		{name: "addition of a scalar", spec: graph.NodeSpec{Op: graph.Add}, in: f32(s(2, 3), s()), want: s(2, 3)},
		{name: "addition of a row", spec: graph.NodeSpec{Op: graph.Add}, in: f32(s(3), s(2, 3)), want: s(2, 3)},
		{name: "addition of a row and a column", spec: graph.NodeSpec{Op: graph.Add}, in: f32(s(1, 3), s(2, 1)),
			want: s(2, 3)},
		{name: "addition of nothing", spec: graph.NodeSpec{Op: graph.Add}, in: f32(s(0, 3), s(1, 3)), want: s(0, 3)},
		{name: "addition that doesn't fit", spec: graph.NodeSpec{Op: graph.Add}, in: f32(s(2, 3), s(2)),
			code:  status.InvalidArgument,
			text:  "Dimensions must be equal, but are 3 and 2 for 'Add' (op: 'Add') with input shapes: [2,3], [2].",
			eager: "Incompatible shapes: [2,3] vs. [2] [Op:AddV2] name: "},
		{name: "addition of types", spec: graph.NodeSpec{Op: graph.Add}, in: typed(gpu.Int32, gpu.Float32),
			code:  status.InvalidType,
			text:  "Input 'y' of 'Add' Op has type float32 that does not match type int32 of argument 'x'.",
			eager: "expected to be a int32 tensor but is a float tensor", eagerC: status.InvalidArgument},
		{name: "addition of bools", spec: graph.NodeSpec{Op: graph.Add}, in: typed(gpu.Bool, gpu.Bool),
			code: status.InvalidType,
			text: "Value passed to parameter 'x' has DataType bool not in list of allowed values: float32, float64, " +
				"int32",
			eager:  "Value for attr 'T' of bool is not in the list of allowed values: float, double, int32 [Op:AddV2]",
			eagerC: status.InvalidArgument},
		{name: "sum of bools", spec: graph.NodeSpec{Op: graph.AddN}, in: typed(gpu.Bool),
			code:  status.InvalidType,
			text:  "Value passed to parameter 'inputs' has DataType bool",
			eager: "Value for attr 'T' of bool is not in the list", eagerC: status.InvalidArgument},
		{name: "identity of a bool", spec: graph.NodeSpec{Op: graph.Identity}, in: typed(gpu.Bool), want: s(2, 2)},
		{name: "identity", spec: graph.NodeSpec{Op: graph.Identity}, in: f32(s(2, 3)), want: s(2, 3)},
		{name: "identity of two", spec: graph.NodeSpec{Op: graph.Identity}, in: f32(s(2), s(2)),
			code: status.InvalidArgument,
			text: "Identity takes 1 inputs, not 2", eager: "Identity takes 1 inputs, not 2"},
		{name: "no operation", spec: graph.NodeSpec{Op: "Conv2D"}, in: f32(s(2)), code: status.NotFound,
			text: "Op type not registered 'Conv2D'",
			eager: "Could not find device for node: {{node Conv2D}} = Conv2D[]\nAll kernels registered for op " +
				"Conv2D:\n  <no registered kernels>\n [Op:Conv2D] name: "},
		{name: "product too large", spec: graph.NodeSpec{Op: graph.MatMul}, in: f32(s(math.MaxInt64/4, 0), s(0, 2)),
			code:  status.InvalidArgument,
			text:  "Shape [2305843009213693951,2] of type float would have more than 2**63 - 1 bytes",
			eager: "more than 2**63 - 1 bytes"},
		{name: "addition too large", spec: graph.NodeSpec{Op: graph.Add}, in: f32(s(1<<31, 1), s(1, 1<<31)),
			code: status.InvalidArgument,
			text: "Shape [2147483648,2147483648] of type float would have more than 2**63 - 1 bytes"},
	} {
		t.Run(row.name+" in a graph", func(t *testing.T) {
			var g graph.Graph
			spec := row.spec
			for _, v := range row.in {
				spec.Inputs = append(spec.Inputs, add(t, &g, graph.NodeSpec{Op: graph.Const, Value: v}))
			}
			before := size(&g)
			n, err := g.Add(spec)
			if row.want == nil {
				require.ErrorContains(t, err, row.text)
				require.Equal(t, row.code, status.CodeOf(err))
				require.Equal(t, before, size(&g))
				return
			}
			require.NoError(t, err)
			require.Equal(t, graph.Partial{Sizes: row.want}, n.Shape())
			require.Equal(t, row.in[0].DType, n.DType())
		})
		if row.want == nil && row.eager == "" {
			continue // its operands would be too large
		}
		t.Run(row.name+" at once", func(t *testing.T) {
			m := newMachine(t, 1, cards(1, "T4")...)
			call := graph.Call{Op: row.spec.Op, TransposeA: row.spec.TransposeA, TransposeB: row.spec.TransposeB}
			for _, v := range row.in {
				made := must.OK(m.Execute(graph.Call{Op: graph.Const, Value: v}))(t)
				defer func() { require.NoError(t, made.Tensor.Release()) }()
				call.Inputs = append(call.Inputs, made.Tensor)
			}
			before := m.inUse()
			made, err := m.Execute(call)
			if row.want == nil {
				require.ErrorContains(t, err, row.eager)
				code := row.code
				if row.eagerC != 0 {
					code = row.eagerC
				}
				require.Equal(t, code, status.CodeOf(err))
				require.Equal(t, before, m.inUse())
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, made.Tensor.Shape())
			require.NoError(t, made.Tensor.Release())
		})
	}
}

func TestConstants(t *testing.T) {
	raw := value(gpu.Float32, nil, 1, 2, 3, 4).Bytes
	for _, row := range []struct {
		name  string
		value graph.Value
		want  []float64
		code  status.Code
		text  string
	}{
		{name: "all given", value: graph.Value{DType: gpu.Float32, Shape: graph.Shape{2, 2}, Bytes: raw},
			want: []float64{1, 2, 3, 4}},
		{name: "one for all", value: graph.Value{DType: gpu.Float32, Shape: graph.Shape{2, 2}, Bytes: raw[:4]},
			want: []float64{1, 1, 1, 1}},
		{name: "the last for the rest", value: graph.Value{DType: gpu.Float32, Shape: graph.Shape{7}, Bytes: raw[:8]},
			want: []float64{1, 2, 2, 2, 2, 2, 2}},
		{name: "a scalar", value: graph.Value{DType: gpu.Float32, Bytes: raw[:4]}, want: []float64{1}},
		{name: "nothing", value: graph.Value{DType: gpu.Float32, Shape: graph.Shape{0, 5}}},
		{name: "nothing, of one", value: graph.Value{DType: gpu.Float32, Shape: graph.Shape{0}, Bytes: raw[:4]}},
		{name: "too many", value: graph.Value{DType: gpu.Float32, Shape: graph.Shape{3}, Bytes: raw},
			code: status.InvalidArgument,
			text: "Too many elements provided. Needed at most 3, but received 4"},
		{name: "too few", value: graph.Value{DType: gpu.Float32, Shape: graph.Shape{3}}, code: status.InvalidArgument,
			text: "Too few elements"},
		{name: "half an element", value: graph.Value{DType: gpu.Float64, Shape: graph.Shape{1}, Bytes: raw[:4]},
			code: status.InvalidArgument,
			text: "4 bytes is not a whole number of float64 elements"},
		{name: "no type", value: graph.Value{Shape: graph.Shape{1}, Bytes: raw[:4]}, code: status.InvalidType,
			text: "not an element type"},
		{name: "a negative size", value: graph.Value{DType: gpu.Float32, Shape: graph.Shape{-1}, Bytes: raw[:4]},
			code: status.Value,
			text: "Dimension -1 must be >= 0"},
		{name: "a negative size of nothing", value: graph.Value{DType: gpu.Float32, Shape: graph.Shape{0, -1}},
			code: status.Value,
			text: "Dimension -1 must be >= 0"},
		{name: "too many dimensions", value: graph.Value{DType: gpu.Float32, Shape: make(graph.Shape, 255)},
			code: status.InvalidArgument, text: "255 dimensions"},
		{name: "too large to count", value: graph.Value{DType: gpu.Float64, Shape: graph.Shape{1 << 40, 1 << 40},
			Bytes: raw[:8]}, code: status.InvalidArgument,
			text: "Shape [1099511627776,1099511627776] of type double would have more than 2**63 - 1 bytes"},
	} {
		for gpus := range 2 {
			t.Run(row.name, func(t *testing.T) {
				m := newMachine(t, 1, cards(gpus, "T4")...)
				var g graph.Graph
				n, err := g.Add(graph.NodeSpec{Op: graph.Const, Value: row.value})
				made, eagerErr := m.Execute(graph.Call{Op: graph.Const, Value: row.value})
				if row.text != "" {
					require.ErrorContains(t, err, row.text)
					require.Equal(t, row.code, status.CodeOf(err))
					require.ErrorContains(t, eagerErr, row.text)
					require.Equal(t, row.code, status.CodeOf(eagerErr))
					return
				}
				require.NoError(t, err)
				require.NoError(t, eagerErr)
				got, _ := fetch(t, graph.NewSession(&g, m.Devices, graph.SessionOptions{}), n)
				require.Equal(t, row.want, numbersOf(got))
				require.Equal(t, row.want, numbersOf(content(t, made.Tensor)))
			})
		}
	}
}

// A constant larger than the staging buffer, given by one element, is written in parts.
func TestLargeConstantOfOneElement(t *testing.T) {
	m := newMachine(t, 1, cards(2, "T4")...)
	var g graph.Graph
	const n = 700_001
	big := add(t, &g, graph.NodeSpec{Op: graph.Const, Device: "/device:GPU:0",
		Value: value(gpu.Float64, graph.Shape{n}, 1, 2)})
	there := apply(t, &g, graph.Identity, "/device:GPU:1", big)
	got, stats := fetch(t, graph.NewSession(&g, m.Devices, graph.SessionOptions{}), there)
	want := make([]float64, n)
	for i := range want {
		want[i] = 2
	}
	want[0] = 1
	require.Equal(t, want, numbersOf(got))
	require.Equal(t, graph.RunStats{Nodes: 2, Copies: 2, CopiedBytes: 2 * 8 * n}, stats)
}

// A caller may change its slices after the call.
func TestNodesShareNothingWithTheCaller(t *testing.T) {
	m := newMachine(t, 1)
	var g graph.Graph
	v := value(gpu.Float32, graph.Shape{2}, 1, 2)
	in := []*graph.Node{add(t, &g, graph.NodeSpec{Op: graph.Const, Value: v})}
	sum := add(t, &g, graph.NodeSpec{Op: graph.AddN, Inputs: in})
	v.Bytes[0], v.Bytes[3], v.Shape[0], in[0] = 99, 99, 99, nil
	got, _ := fetch(t, graph.NewSession(&g, m.Devices, graph.SessionOptions{}), sum)
	require.Equal(t, []float64{1, 2}, numbersOf(got))
}

func TestNodesOfAnotherGraph(t *testing.T) {
	var g, other graph.Graph
	theirs := zeros(t, &other, gpu.Float32, 2, 2)
	_, err := g.Add(graph.NodeSpec{Op: graph.Identity, Inputs: []*graph.Node{theirs}})
	must.Fail(t, status.InvalidArgument, err,
		`Tensor("Const:0", shape=(2, 2), dtype=float32) must be from the same graph`)
	_, err = g.Add(graph.NodeSpec{Op: graph.Identity, Inputs: []*graph.Node{nil}})
	must.Fail(t, status.InvalidArgument, err)
	require.Zero(t, size(&g))
}

func TestNames(t *testing.T) {
	for _, row := range []struct{ name, asked, want string }{
		{"default names", ", , ", "Const Const_1 Const_2"},
		{"given names", "a, b, a, a", "a b a_1 a_2"},
		{"case doesn't tell names apart", "A, a, A", "A a_1 A_2"},
		{"a number that is taken", "a_1, a, a, a", "a_1 a a_2 a_3"},
		{"a name with a number twice", "a, a, a_1, a_1", "a a_1 a_1_1 a_1_2"},
		{"an exact name", "s/a/, s/a", "s/a s/a_1"},
		{"default after given", "Const, , Const_1", "Const Const_1 Const_1_1"},
		{"odd but fine", "., 0, a.b-c>d\\e/f_", ". 0 a.b-c>d\\e/f_"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var g graph.Graph
			var got []string
			for _, asked := range strings.Split(row.asked, ", ") {
				got = append(got,
					add(t, &g, graph.NodeSpec{Op: graph.Const, Name: asked, Value: value(gpu.Float32, nil, 1)}).Name())
			}
			require.Equal(t, strings.Fields(row.want), got)
		})
	}
	for _, bad := range []string{"_a", "a b", "ü", "/", "-", "a:0", "a\n", "^a"} {
		t.Run("bad name "+bad, func(t *testing.T) {
			var g graph.Graph
			_, err := g.Add(graph.NodeSpec{Op: graph.Const, Name: bad, Value: value(gpu.Float32, nil, 1)})
			must.Fail(t, status.InvalidArgument, err, "is not a valid node name")
		})
	}
	t.Run("an exact name twice", func(t *testing.T) {
		var g graph.Graph
		add(t, &g, graph.NodeSpec{Op: graph.Const, Name: "a/", Value: value(gpu.Float32, nil, 1)})
		_, err := g.Add(graph.NodeSpec{Op: graph.Const, Name: "a/", Value: value(gpu.Float32, nil, 1)})
		require.EqualError(t, err, "Duplicate node name in graph: 'a'")
	})
	t.Run("a failed node takes no name", func(t *testing.T) {
		var g graph.Graph
		require.Error(t, must.Err(g.Add(graph.NodeSpec{Op: graph.MatMul})))
		a := zeros(t, &g, gpu.Float32, 2, 2)
		require.Equal(t, "MatMul", apply(t, &g, graph.MatMul, "", a, a).Name())
	})
}
