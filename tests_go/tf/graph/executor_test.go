package graph_test

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

func TestOnlyWhatIsFetchedRuns(t *testing.T) {
	m := newMachine(t, 1, cards(1, "T4")...)
	var g graph.Graph
	n := script(t, &g, "a = Const\nb = Const\nc = MatMul a a\nd = MatMul b b\ne = AddN c d")
	s := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	for name, want := range map[string]int{"a": 1, "c": 2, "e": 5} {
		_, stats := fetch(t, s, n[name])
		require.Equal(t, want, stats.Nodes, name)
	}
	out, stats := must.OK2(s.Run(graph.RunRequest{}))(t)
	require.Empty(t, out)
	require.Zero(t, stats)
}

func TestSeveralFetchesAndTheSameTwice(t *testing.T) {
	m := newMachine(t, 1, cards(2, "T4")...)
	var g graph.Graph
	n := script(t, &g, "a = Const @ /gpu:0\nb = MatMul a a @ /gpu:1\nc = Identity b @ /cpu:0")
	s := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	out, stats := must.OK2(s.Run(graph.RunRequest{Fetches: []*graph.Node{n["c"], n["b"], n["b"], n["a"], n["b"]}}))(t)
	require.Equal(t, graph.RunStats{Nodes: 3, Copies: 3, CopiedBytes: 48}, stats,
		"a to gpu:1 and to the host, b to the host once")
	for i, want := range []float64{2, 2, 2, 1, 2} {
		require.Equal(t, "/job:localhost/replica:0/task:0/device:CPU:0", out[i].BackingDevice().String())
		require.Equal(t, []float64{want, want, want, want}, numbersOf(content(t, out[i])))
	}
}

// The peak of live memory does not grow with the length of a chain.
func TestTensorsGoWithTheirLastReader(t *testing.T) {
	for _, length := range []int{5, 500} {
		m := newMachine(t, 1, cards(1, "T4")...)
		var g graph.Graph
		last := sums(t, &g, length)
		fetch(t, graph.NewSession(&g, m.Devices, graph.SessionOptions{}), last)
		require.Equal(t, 3, m.faults.peak, "a sum, its operand and the constant")
	}
}

// A tensor that is needed in another memory is copied there once, however many operations read it there.
func TestCopiesAreShared(t *testing.T) {
	m := newMachine(t, 2, cards(2, "T4")...)
	var g graph.Graph
	n := script(t, &g, `
a = Const @ /gpu:0
b = MatMul a a @ /gpu:1
c = AddN a a b @ /gpu:1
d = AddN a b c @ /cpu:1
e = Identity a @ /gpu:0
f = AddN d e @ /gpu:0`)
	got, stats := fetch(t, graph.NewSession(&g, m.Devices, graph.SessionOptions{}), n["f"])
	require.Equal(t, []float64{8, 8, 8, 8}, numbersOf(got))
	require.Equal(t, 6, stats.Copies, "a to gpu:1 and cpu:1, b and c to cpu:1, d to gpu:0, f to cpu:0")
	require.EqualValues(t, 6*16, stats.CopiedBytes)
}

// Operands of int32 stay in host memory, even if a GPU is requested, as in TensorFlow.
func TestInt32StaysInHostMemory(t *testing.T) {
	m := newMachine(t, 1, cards(1, "T4")...)
	var g graph.Graph
	n := script(t, &g, "a = Const:int32 @ /gpu:0\nb = AddN a a @ /gpu:0\nc = MatMul b b\nd = Identity c @ /gpu:0")
	s := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	got, stats := fetch(t, s, n["d"])
	require.Equal(t, value(gpu.Int32, graph.Shape{2, 2}, 8, 8, 8, 8), got)
	require.Equal(t, graph.RunStats{Nodes: 4}, stats)
	require.Equal(t, "GPU:0", whereIs(t, s, n["b"]))
	require.Zero(t, m.pools[0].Stats().NumAllocs)
}

func TestArithmetic(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, row := range []struct {
		name  string
		dtype gpu.DType
		op    graph.Op
		spec  graph.NodeSpec
		in    []graph.Value
		want  graph.Value
	}{
		{name: "a product", op: graph.MatMul, in: []graph.Value{value(1, graph.Shape{1, 2}, 1, 2),
			value(1, graph.Shape{2, 2}, 1, 2, 3, 4)}, want: value(1, graph.Shape{1, 2}, 7, 10)},
		{name: "transposed", op: graph.MatMul, spec: graph.NodeSpec{TransposeA: true},
			in:   []graph.Value{value(1, graph.Shape{2, 1}, 1, 2), value(1, graph.Shape{2, 2}, 1, 2, 3, 4)},
			want: value(1, graph.Shape{1, 2}, 7, 10)},
		{name: "both transposed", op: graph.MatMul, spec: graph.NodeSpec{TransposeA: true, TransposeB: true},
			in:   []graph.Value{value(2, graph.Shape{2, 1}, 1, 2), value(2, graph.Shape{2, 2}, 1, 3, 2, 4)},
			want: value(2, graph.Shape{1, 2}, 7, 10)},
		{name: "integers wrap around", op: graph.MatMul, in: []graph.Value{value(3, graph.Shape{1, 1}, 1<<30),
			value(3, graph.Shape{1, 1}, 6)}, want: value(3, graph.Shape{1, 1}, -1<<31)},
		{name: "a sum wraps around", op: graph.AddN, in: []graph.Value{value(3, nil, 1<<31-1), value(3, nil, 1),
			value(3, nil, 1)}, want: value(3, nil, -1<<31+1)},
		{name: "nothing times nothing is zeros", op: graph.MatMul, in: []graph.Value{value(1, graph.Shape{2, 0}),
			value(1, graph.Shape{0, 3})}, want: value(1, graph.Shape{2, 3}, 0, 0, 0, 0, 0, 0)},
		{name: "an empty product", op: graph.MatMul, in: []graph.Value{value(1, graph.Shape{0, 2}),
			value(1, graph.Shape{2, 3}, 1)}, want: value(1, graph.Shape{0, 3})},
		{name: "an empty sum", op: graph.AddN, in: []graph.Value{value(1, graph.Shape{0}), value(1, graph.Shape{0})},
			want: value(1, graph.Shape{0})},
		{name: "0 times infinity", op: graph.MatMul, in: []graph.Value{value(1, graph.Shape{1, 2}, 0, 1),
			value(1, graph.Shape{2, 2}, inf, 1, 5, 6)}, want: value(1, graph.Shape{1, 2}, nan, 6)},
		{name: "NaN stays", op: graph.Add, in: []graph.Value{value(2, graph.Shape{2}, nan, inf),
			value(2, graph.Shape{2}, 1, 1)}, want: value(2, graph.Shape{2}, nan, inf)},
		{name: "a sum of many", op: graph.AddN, in: []graph.Value{value(2, graph.Shape{2}, 1, 2),
			value(2, graph.Shape{2}, 10, 20), value(2, graph.Shape{2}, 100, 200)},
			want: value(2, graph.Shape{2}, 111, 222)},
		{name: "plus a scalar", op: graph.Add, in: []graph.Value{value(1, graph.Shape{2, 2}, 1, 2, 3, 4),
			value(1, nil, 10)}, want: value(1, graph.Shape{2, 2}, 11, 12, 13, 14)},
		{name: "a scalar plus", op: graph.Add, in: []graph.Value{value(3, nil, 10), value(3, graph.Shape{3}, 1, 2, 3)},
			want: value(3, graph.Shape{3}, 11, 12, 13)},
		{name: "two scalars", op: graph.Add, in: []graph.Value{value(1, nil, 10), value(1, nil, 1)},
			want: value(1, nil, 11)},
		{name: "plus a row", op: graph.Add, in: []graph.Value{value(1, graph.Shape{2, 3}, 1, 2, 3, 4, 5, 6),
			value(1, graph.Shape{3}, 10, 20, 30)}, want: value(1, graph.Shape{2, 3}, 11, 22, 33, 14, 25, 36)},
		{name: "plus a column", op: graph.Add, in: []graph.Value{value(1, graph.Shape{2, 1}, 10, 20),
			value(1, graph.Shape{2, 3}, 1, 2, 3, 4, 5, 6)}, want: value(1, graph.Shape{2, 3}, 11, 12, 13, 24, 25, 26)},
		{name: "a row plus a column", op: graph.Add, in: []graph.Value{value(1, graph.Shape{1, 3}, 1, 2, 3),
			value(1, graph.Shape{2, 1}, 10, 20)}, want: value(1, graph.Shape{2, 3}, 11, 12, 13, 21, 22, 23)},
		{name: "plus the middle", op: graph.Add, in: []graph.Value{value(1, graph.Shape{2, 1, 2}, 1, 2, 3, 4),
			value(1, graph.Shape{3, 1}, 10, 20, 30)},
			want: value(1, graph.Shape{2, 3, 2}, 11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34)},
		{name: "plus an empty row", op: graph.Add, in: []graph.Value{value(1, graph.Shape{0, 3}),
			value(1, graph.Shape{3}, 1, 2, 3)}, want: value(1, graph.Shape{0, 3})},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMachine(t, 1, cards(1, "T4")...)
			var g graph.Graph
			row.spec.Op = row.op
			call := graph.Call{Op: row.op, TransposeA: row.spec.TransposeA, TransposeB: row.spec.TransposeB}
			for _, v := range row.in {
				row.spec.Inputs = append(row.spec.Inputs, add(t, &g, graph.NodeSpec{Op: graph.Const, Value: v}))
				made := must.OK(m.Execute(graph.Call{Op: graph.Const, Value: v}))(t)
				defer func() { require.NoError(t, made.Tensor.Release()) }()
				call.Inputs = append(call.Inputs, made.Tensor)
			}
			got, _ := fetch(t, graph.NewSession(&g, m.Devices, graph.SessionOptions{}), add(t, &g, row.spec))
			requireSame(t, row.want, got)
			made := must.OK(m.Execute(call))(t)
			requireSame(t, row.want, content(t, made.Tensor))
		})
	}
}

// requireSame compares values; NaN equals NaN.
func requireSame(t require.TestingT, want, got graph.Value) {
	require.Equal(t, want.DType, got.DType)
	require.True(t, want.Shape.Equal(got.Shape), "%s, not %s", got.Shape, want.Shape)
	w, g := numbersOf(want), numbersOf(got)
	require.Len(t, g, len(w))
	for i := range w {
		if math.IsNaN(w[i]) != math.IsNaN(g[i]) || !math.IsNaN(w[i]) && w[i] != g[i] {
			require.Equal(t, w, g)
		}
	}
}

// Every allocation, copy and computation fails once; in each case nothing is left behind and the next run succeeds.
func TestWalkOfFailures(t *testing.T) {
	const text = `
a = Const @ /gpu:0
b = Const @ /cpu:0
c = MatMul a b @ /gpu:1
d = Add c b @ /cpu:1
e = AddN a b c d @ /gpu:0
f = Identity e @ /cpu:0
h = Const:int32 @ /gpu:0
i = MatMul h h`
	m := newMachine(t, 2, cards(2, "T4")...)
	var g graph.Graph
	n := script(t, &g, text)
	s := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	fetches := []*graph.Node{n["c"], n["f"], n["i"], n["e"], n["f"]}
	for _, kind := range []string{"allocate", "copy", "compute", "free"} {
		failed := 0
		for nth := 1; ; nth++ {
			m.faults.kind, m.faults.left = kind, nth
			out, _, err := s.Run(graph.RunRequest{Fetches: fetches})
			if m.faults.left > 0 { // there was no such call any more
				m.faults.left = 0
				require.NoError(t, err)
				for _, tensor := range out {
					require.NoError(t, tensor.Release())
				}
				break
			}
			failed++
			require.ErrorIs(t, err, errInjected, "%s %d", kind, nth)
			must.Fail(t, status.Unavailable, err, "\n\t [[Node: ")
			require.Nil(t, out)
			require.Equal(t, make([]uint64, 3), m.inUse(), "%s %d", kind, nth)
		}
		require.Greater(t, failed, 2, kind)
		got, _ := fetch(t, s, n["f"])
		require.Equal(t, []float64{7, 7, 7, 7}, numbersOf(got))
	}
}

func TestOutOfMemory(t *testing.T) {
	m := newMachine(t, 1, cards(1, "T4")...)
	var g graph.Graph
	const n = 4096 // a square of 64 MiB; the pool has 32
	column := add(t, &g, graph.NodeSpec{Op: graph.Const, Value: value(gpu.Float32, graph.Shape{n, 1}, 1)})
	square := add(t, &g, graph.NodeSpec{Op: graph.MatMul, Inputs: []*graph.Node{column, column}, TransposeB: true})
	s := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	_, _, err := s.Run(graph.RunRequest{Fetches: []*graph.Node{square}})
	must.Fail(t, status.ResourceExhausted, err)
	require.ErrorContains(t, err, "OOM when allocating tensor with shape[4096,4096] and type float on "+
		"/job:localhost/replica:0/task:0/device:GPU:0: ")
	require.ErrorContains(t, err, " out of memory")
	require.ErrorContains(t, err,
		`[[Node: MatMul = MatMul[T=DT_FLOAT, transpose_a=false, transpose_b=true, _device="/job:localhost/replica:0/task:0/gpu:0"](Const, Const)]]`)
	var story *bfc.OutOfMemory
	require.True(t, errors.As(err, &story))
	require.EqualValues(t, 4*n*n, story.Requested)
	fetch(t, s, column)

	made, err := m.Execute(graph.Call{Op: graph.Const, Value: value(gpu.Float32, graph.Shape{n, n}, 1)})
	must.Fail(t, status.ResourceExhausted, err, "[Op:_EagerConst] name: ")
	require.Nil(t, made.Tensor)
}

func TestSessionsEnd(t *testing.T) {
	m := newMachine(t, 1)
	var g, other graph.Graph
	a := zeros(t, &g, gpu.Float32, 2)
	foreign := zeros(t, &other, gpu.Float32, 2)
	s := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	_, _, err := s.Run(graph.RunRequest{Fetches: []*graph.Node{foreign}})
	require.EqualError(t, err, `Tensor Tensor("Const:0", shape=(2,), dtype=float32) is not an element of this graph.`)
	must.Fail(t, status.InvalidArgument, err)
	must.Fail(t, status.InvalidArgument, must.Err2(s.Run(graph.RunRequest{Fetches: []*graph.Node{nil}})))
	fetch(t, s, a)
	s.Close()
	s.Close()
	_, _, err = s.Run(graph.RunRequest{Fetches: []*graph.Node{a}})
	require.EqualError(t, err, "Attempted to use a closed Session.")
	must.Fail(t, status.FailedPrecondition, err)
	again := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	fetch(t, again, a)
}

func TestTensorsEnd(t *testing.T) {
	m := newMachine(t, 1, cards(1, "T4")...)
	made := must.OK(m.Execute(graph.Call{Op: graph.Const, Value: value(gpu.Float32, graph.Shape{2}, 1, 2)}))(t)
	require.EqualValues(t, 8, made.Tensor.Bytes())
	require.ErrorContains(t, made.Tensor.Read(make([]byte, 7)), "a buffer of 7 bytes does not match a tensor of 8 "+
		"bytes")
	alias := must.OK(m.Execute(graph.Call{Op: graph.Identity, Inputs: []*graph.Tensor{made.Tensor}}))(t)
	require.Equal(t, made.Tensor.Buffer(), alias.Tensor.Buffer())
	require.NoError(t, made.Tensor.Release())
	require.NoError(t, made.Tensor.Release(), "a second time does nothing")
	require.Equal(t, []float64{1, 2}, numbersOf(content(t, alias.Tensor)))
	must.Fail(t, status.FailedPrecondition, must.Err(valueOf(made.Tensor)))
	_, err := m.Execute(graph.Call{Op: graph.Identity, Inputs: []*graph.Tensor{alias.Tensor}})
	must.Fail(t, status.FailedPrecondition, err, "the tensor was already released")
}

// Concurrent runs, eager calls and a growing graph leave nothing behind and return correct results.
func TestManyAtOnce(t *testing.T) {
	m := newMachine(t, 1, cards(2, "T4")...)
	var g graph.Graph
	n := script(t, &g, "a = Const @ /gpu:0\nb = MatMul a a @ /gpu:1\nc = AddN a b @ /cpu:0")
	s := graph.NewSession(&g, m.Devices, logged)
	shared := must.OK(m.Execute(graph.Call{Op: graph.Const, Value: value(gpu.Float32, graph.Shape{2, 2}, 3)}))(t)
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			for range 50 {
				out, _, err := s.Run(graph.RunRequest{Fetches: []*graph.Node{n["c"]}})
				if err != nil {
					t.Error(err)
					return
				}
				if v, err := valueOf(out[0]); err != nil || numbersOf(v)[3] != 3 {
					t.Error(v, err)
				}
				if err := out[0].Release(); err != nil {
					t.Error(err)
				}
				if _, err := g.Add(graph.NodeSpec{Op: graph.Identity, Inputs: []*graph.Node{n["a"]}}); err != nil {
					t.Error(err)
				}
				made, err := m.Execute(
					graph.Call{Op: graph.MatMul, Inputs: []*graph.Tensor{shared.Tensor, shared.Tensor},
						Device: "/device:GPU:1"})
				if err != nil {
					t.Error(err)
					return
				}
				if err := made.Tensor.Release(); err != nil {
					t.Error(err)
				}
				s.DrainLog()
			}
		})
	}
	wait.Wait()
	require.NoError(t, shared.Tensor.Release())
	require.Equal(t, 303, size(&g))
}

// A tensor that is released while operations read it is freed after the last of them.
func TestReleaseDuringUse(t *testing.T) {
	m := newMachine(t, 1)
	for range 100 {
		made := must.OK(m.Execute(graph.Call{Op: graph.Const, Value: value(gpu.Float32, graph.Shape{8, 8}, 1)}))(t)
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				out, err := m.Execute(graph.Call{Op: graph.MatMul, Inputs: []*graph.Tensor{made.Tensor, made.Tensor}})
				if err != nil {
					if status.CodeOf(err) != status.FailedPrecondition {
						t.Error(err)
					}
					return
				}
				v, err := valueOf(out.Tensor)
				if err != nil || numbersOf(v)[63] != 8 {
					t.Error(err)
				}
				if err := out.Tensor.Release(); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Go(func() {
			if err := made.Tensor.Release(); err != nil {
				t.Error(err)
			}
		})
		wait.Wait()
	}
}
