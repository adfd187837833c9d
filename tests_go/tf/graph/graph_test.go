package graph_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

func TestScopesInGraphs(t *testing.T) {
	for _, row := range []struct {
		name   string
		own    string
		scopes []string // the outermost first
		want   string
	}{
		{name: "no scope", want: ""},
		{name: "as it is, in its one spelling", scopes: []string{"/gpu:2"}, want: "/device:GPU:2"},
		{name: "stays partial", scopes: []string{"/job:worker/replica:2"}, want: "/job:worker/replica:2"},
		{name: "empty changes nothing", scopes: []string{"/gpu:1", ""}, want: "/device:GPU:1"},
		{name: "the inner one wins", scopes: []string{"/gpu:1", "/cpu:0"}, want: "/device:CPU:0"},
		{name: "outer fields remain", scopes: []string{"/job:worker/gpu:1", "/task:3"},
			want: "/job:worker/task:3/device:GPU:1"},
		{name: "142: any inside a number", scopes: []string{"/device:GPU:7", "/device:GPU:*"}, want: "/device:GPU:7"},
		{name: "142: a number inside any", scopes: []string{"/device:CPU:*", "/device:CPU:5"}, want: "/device:CPU:5"},
		{name: "the node's request wins", own: "/gpu:3", scopes: []string{"/gpu:1"}, want: "/device:GPU:3"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := row.own
			for _, scope := range slices.Backward(row.scopes) {
				got = must.OK(graph.Request(got, scope))(t)
			}
			require.Equal(t, row.want, got)
		})
	}
	_, err := graph.Request("/gpu:0", "bogus")
	must.Fail(t, status.InvalidArgument, err,
		"Unknown attribute 'bogus' is encountered while parsing the device spec: 'bogus'.")
	require.Error(t, must.Err(graph.Request("bogus", "")))
}

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

// The description of a node that cannot be placed contains its value, as in TensorFlow.
func TestValuesInErrors(t *testing.T) {
	for _, row := range []struct {
		name  string
		value graph.Value
		want  string
	}{
		{"more than three", value(gpu.Float32, graph.Shape{3, 2}, 1, 2, 3, 4, 5, 6),
			"dtype=DT_FLOAT, value=Tensor<type: float shape: [3,2] values: 1 2 3...>"},
		{"three", value(gpu.Float32, graph.Shape{3}, 1, 2, 3), "Tensor<type: float shape: [3] values: 1 2 3>"},
		{"one for many", value(gpu.Float32, graph.Shape{1 << 40}, 7), "Tensor<type: float shape: [1099511627776] " +
			"values: 7 7 7...>"},
		{"a scalar", value(gpu.Int32, nil, -5), "dtype=DT_INT32, value=Tensor<type: int32 shape: [] values: -5>"},
		{"bools", graph.Value{DType: gpu.Bool, Shape: graph.Shape{2}, Bytes: []byte{1, 0}},
			"dtype=DT_BOOL, value=Tensor<type: bool shape: [2] values: 1 0>"},
		{"nothing", value(gpu.Float64, graph.Shape{0}), "dtype=DT_DOUBLE, value=Tensor<type: double shape: [0] " +
			"values: >"},
		{"fractions", value(gpu.Float32, graph.Shape{3}, 0.1, -2.5, 1e-7), "values: 0.1 -2.5 1e-07>"},
		{"doubles", value(gpu.Float64, graph.Shape{3}, 0.1, 1.0/3, 1e300), "values: 0.1 0.3333333333333333 1e+300>"},
		{"not finite", value(gpu.Float32, graph.Shape{3}, math.NaN(), math.Inf(1), math.Inf(-1)),
			"values: nan inf -inf>"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMachine(t, 1)
			var g graph.Graph
			add(t, &g, graph.NodeSpec{Op: graph.Const, Name: "x", Device: "/gpu:0", Value: row.value})
			_, _, err := graph.NewSession(&g, m.Devices, graph.SessionOptions{}).Run(graph.RunRequest{})
			require.ErrorContains(t, err, row.want+", _device=\"/gpu:0\"]()]]")
			require.ErrorContains(t, err, "[[Node: x = Const[")
		})
	}
}

func TestNodesTellWhatTheyAre(t *testing.T) {
	m := newMachine(t, 1)
	var g graph.Graph
	n := script(t, &g, "a = Const:double @ /cpu:0\nb = MatMul a a")
	b := n["b"]
	require.Equal(t, "b", b.Name())
	require.Equal(t, gpu.Float64, b.DType())
	found, ok := g.Node(b.ID())
	require.True(t, ok)
	require.Same(t, b, found)
	for _, id := range []int{-1, 2} {
		_, ok := g.Node(id)
		require.False(t, ok)
	}
	out, _ := must.OK2(graph.NewSession(&g, m.Devices, graph.SessionOptions{}).Run(
		graph.RunRequest{Fetches: []*graph.Node{b}}))(t)
	require.Equal(t, gpu.Float64, out[0].DType())
	require.Equal(t, "[2,2]", out[0].Shape().String())
	require.NoError(t, out[0].Release())
}

// A device of a type that has no kernels is listed and never chosen.
func TestDeviceOfAnotherType(t *testing.T) {
	m := newMachine(t, 1)
	cpu := m.device(devname.LocalDevice("CPU", 0), 0, m.cpu)
	odd := graph.Device{Name: devname.LocalDevice("XPU", 0), Description: "odd"}
	devices := must.OK(graph.NewDevices([]graph.Device{odd, cpu}))(t)
	require.Equal(t, []string{"Device mapping:", "/job:localhost/replica:0/task:0/device:XPU:0 -> odd"},
		devices.MappingLines())
	made := must.OK(devices.Execute(graph.Call{Op: graph.Const, Value: value(gpu.Float32, nil, 1)}))(t)
	require.Equal(t, local+"/device:CPU:0", made.Tensor.Device())
	require.NoError(t, made.Tensor.Release())
	var g graph.Graph
	add(t, &g, graph.NodeSpec{Op: graph.Const, Device: "/device:XPU:0", Value: value(gpu.Float32, nil, 1)})
	_, _, err := graph.NewSession(&g, devices, graph.SessionOptions{}).Run(graph.RunRequest{})
	require.ErrorContains(t, err, "because no supported kernel for XPU devices is available")
}

// The GPU with the lowest number is the first choice, in any order of devices.
func TestOrderOfTheDeviceList(t *testing.T) {
	var list []graph.Device
	for _, name := range []devname.Name{devname.LocalDevice("GPU", 1), devname.LocalDevice("CPU", 1),
		devname.LocalDevice("GPU", 0), devname.LocalDevice("CPU", 0)} {
		list = append(list, graph.Device{Name: name})
	}
	devices := must.OK(graph.NewDevices(list))(t)
	var g graph.Graph
	first, cpu := zeros(t, &g, gpu.Float32, 2),
		add(t, &g, graph.NodeSpec{Op: graph.Const, Device: "/cpu:*", Value: value(gpu.Float32, nil, 1)})
	s := graph.NewSession(&g, devices, graph.SessionOptions{})
	must.OK2(s.Run(graph.RunRequest{}))(t)
	require.Equal(t, "GPU:0", whereIs(t, s, first))
	require.Equal(t, "CPU:0", whereIs(t, s, cpu))
}

// The error for an operation without a supported device lists the devices.
func TestNoSupportedDevice(t *testing.T) {
	m := newMachine(t, 1)
	_, err := m.Execute(graph.Call{Op: graph.Const, Value: value(gpu.Float32, nil, 1),
		Device: "/job:elsewhere/replica:0/task:0/device:CPU:0", SoftPlacement: true})
	require.ErrorContains(t, err, "/job:elsewhere/replica:0/task:0/device:CPU:0 unknown device.")
	x := eager(t, m, graph.Call{Op: graph.Const, Value: value(gpu.Float32, nil, 1)})
	_, err = m.Execute(graph.Call{Op: graph.Identity, Inputs: []*graph.Tensor{x}, Device: "/job:elsewhere",
		SoftPlacement: true})
	require.ErrorContains(t, err, "Could not satisfy device specification '/job:elsewhere'. enable_soft_placement=1.")
}

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
