package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

// script builds a graph from lines such as "c = MatMul a b @ /device:GPU:1", "a = Const:int32 @ ..." and
// "c = Identity a ^b" (which waits for b).
func script(t require.TestingT, g *graph.Graph, text string) map[string]*graph.Node {
	nodes := map[string]*graph.Node{}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line, on, _ := strings.Cut(line, " @ ")
		fields := strings.Fields(line)
		op, dtype, _ := strings.Cut(fields[2], ":")
		spec := graph.NodeSpec{Op: graph.Op(op), Name: fields[0], Device: strings.TrimSpace(on)}
		if spec.Op == graph.Const {
			types := map[string]gpu.DType{"": gpu.Float32, "double": gpu.Float64, "int32": gpu.Int32}
			spec.Value = value(types[dtype], graph.Shape{2, 2}, 1)
		}
		for _, input := range fields[3:] {
			if control, waits := strings.CutPrefix(input, "^"); waits {
				require.Contains(t, nodes, control)
				spec.Controls = append(spec.Controls, nodes[control])
				continue
			}
			require.Contains(t, nodes, input)
			spec.Inputs = append(spec.Inputs, nodes[input])
		}
		nodes[fields[0]] = add(t, g, spec)
	}
	return nodes
}

func TestPlacement(t *testing.T) {
	for _, row := range []struct {
		name       string
		cpus, gpus int
		soft       bool
		graph      string
		want       string // "a=GPU:0 b=CPU:0"
		fails      string // or part of the error
	}{
		{name: "the GPU where there is one", gpus: 1, graph: "a = Const\nb = AddN a a\nc = Add a b\nd = Identity " +
			"c\ne = MatMul a d",
			want: "a=GPU:0 b=GPU:0 c=GPU:0 d=GPU:0 e=GPU:0"},
		{name: "the CPU where there is none", graph: "a = Const\nb = MatMul a a", want: "a=CPU:0 b=CPU:0"},
		{name: "the lowest GPU of eleven", gpus: 11, graph: "a = Const\nb = MatMul a a", want: "a=GPU:0 b=GPU:0"},
		{name: "any GPU", gpus: 2, graph: "a = Const @ /device:GPU:*\nb = MatMul a a @ /gpu:*",
			want: "a=GPU:0 b=GPU:0"},
		{name: "any second device", gpus: 2, cpus: 2, graph: "a = Const @ /device:*:1\nb = Identity a @ /job:localhost",
			want: "a=GPU:1 b=GPU:0"},
		{name: "a full name", gpus: 2, graph: "a = Const @ /job:localhost/replica:0/task:0/device:GPU:1",
			want: "a=GPU:1"},
		{name: "constants go to their readers", gpus: 2, graph: "a = Const\nb = MatMul a a @ /gpu:1\nc = AddN a b @ " +
			"/gpu:1", want: "a=GPU:1 b=GPU:1 c=GPU:1"},
		{name: "also to the CPU", gpus: 1, graph: "a = Const\nb = MatMul a a @ /cpu:0", want: "a=CPU:0 b=CPU:0"},
		{name: "readers that don't agree", gpus: 3, graph: "a = Const\nb = MatMul a a @ /gpu:1\nc = MatMul a a @ " +
			"/gpu:2", want: "a=GPU:0 b=GPU:1 c=GPU:2"},
		{name: "a constant with another device", gpus: 2, graph: "a = Const @ /gpu:0\nb = MatMul a a @ /gpu:1",
			want: "a=GPU:0 b=GPU:1"},
		{name: "a constant that is not read", gpus: 1, graph: "a = Const", want: "a=GPU:0"},
		{name: "identity with its input, not read", gpus: 1, graph: "a = Const:int32\nb = MatMul a a\nc = Identity " +
			"b\nd = Identity c", want: "a=CPU:0 b=CPU:0 c=CPU:0 d=CPU:0"},
		{name: "identity with its input, whose reader requests the same", gpus: 2,
			graph: "a = Const\nb = AddN a @ /gpu:1\nc = Identity b\nd = Identity c @ /gpu:1",
			want:  "a=GPU:1 b=GPU:1 c=GPU:1 d=GPU:1"},
		{name: "identity without its input, which requests a device", gpus: 2,
			graph: "a = Const\nb = AddN a a @ /gpu:1\nc = Identity b", want: "a=GPU:1 b=GPU:1 c=GPU:0"},
		{name: "identity without its input, as it is read twice", gpus: 1,
			graph: "a = Const:int32\nb = MatMul a a\nc = Identity b\nd = Add c c",
			want:  "a=CPU:0 b=CPU:0 c=GPU:0 d=GPU:0"},
		{name: "identity without its input, which has a request", gpus: 1,
			graph: "a = Const:int32\nb = MatMul a a\nc = Identity b @ /job:localhost", want: "a=CPU:0 b=CPU:0 c=GPU:0"},
		{name: "identity with another device", gpus: 2, graph: "a = Const @ /gpu:1\nb = Identity a @ /cpu:0",
			want: "a=GPU:1 b=CPU:0"},
		{name: "identity without its input, as it waits for something", gpus: 1,
			graph: "a = Const:int32\nb = MatMul a a\nc = Identity b ^a", want: "a=GPU:0 b=CPU:0 c=GPU:0"},
		{name: "identity without its input, as two wait for it", gpus: 1,
			graph: "a = Const:int32\nb = MatMul a a\nc = Identity b\nd = MatMul a a ^c\ne = MatMul a a ^c",
			want:  "a=CPU:0 b=CPU:0 c=GPU:0 d=CPU:0 e=CPU:0"},
		{name: "constants go to what waits for them", gpus: 2, graph: "a = Const\nb = Const @ /gpu:1\nc = MatMul b " +
			"b ^a @ /gpu:1", want: "a=GPU:1 b=GPU:1 c=GPU:1"},
		{name: "a constant that a constant waits for", gpus: 2, graph: "a = Const\nb = Const ^a @ /gpu:1",
			want: "a=GPU:0 b=GPU:1"},
		{name: "no GPU multiplies int32", gpus: 1, graph: "a = Const:int32\nb = MatMul a a\nc = AddN b b",
			want: "a=CPU:0 b=CPU:0 c=GPU:0"},
		{name: "doubles", gpus: 1, graph: "a = Const:double\nb = MatMul a a", want: "a=GPU:0 b=GPU:0"},
		{name: "soft: a GPU that is missing", gpus: 1, soft: true, graph: "a = Const @ /gpu:7", want: "a=GPU:0"},
		{name: "soft: a CPU that is missing becomes a GPU", gpus: 1, soft: true, graph: "a = Const @ /cpu:2",
			want: "a=GPU:0"},
		{name: "soft: no GPU at all", soft: true, graph: "a = Const @ /gpu:0\nb = MatMul a a @ /gpu:1",
			want: "a=CPU:0 b=CPU:0"},
		{name: "soft: what is there is kept", gpus: 2, cpus: 2, soft: true,
			graph: "a = Const @ /cpu:1\nb = MatMul a a @ /gpu:1", want: "a=CPU:1 b=GPU:1"},
		{name: "soft: no kernel", gpus: 1, soft: true, graph: "a = Const:int32 @ /gpu:0\nb = MatMul a a @ /gpu:0",
			want: "a=GPU:0 b=CPU:0"},
		{name: "soft: a strange type", gpus: 1, soft: true, graph: "a = Const @ /device:TPU:0", want: "a=GPU:0"},
		{name: "soft does not cross jobs", gpus: 1, soft: true, graph: "a = Const @ /job:worker/gpu:0",
			fails: "Could not satisfy explicit device specification '/job:worker/gpu:0'"},
		{name: "missing", gpus: 1, graph: "a = Const @ /gpu:1", fails: "Invalid argument: Cannot assign a device to " +
			"node 'a': Could not satisfy explicit device specification '/gpu:1'\n\t [[Node: a = Const["},
		{name: "a strange type", graph: "a = Const @ /device:TPU:0", fails: "Could not satisfy explicit device " +
			"specification '/device:TPU:0'"},
		{name: "a missing CPU", graph: "a = Const @ /cpu:1", fails: "'/cpu:1'"},
		{name: "what is not fetched counts too", gpus: 1, graph: "z = Const @ /gpu:9\na = Const", fails: "node 'z'"},
		{name: "the product is named when only it is wrong", gpus: 1, graph: "a = Const\nb = MatMul a a @ /gpu:2",
			fails: `[[Node: b = MatMul[T=DT_FLOAT, transpose_a=false, transpose_b=false, _device="/gpu:2"](a, a)]]`},
		{name: "a sum is described", graph: "a = Const:double\nb = AddN a a a @ /gpu:0",
			fails: `[[Node: b = AddN[N=3, T=DT_DOUBLE, _device="/gpu:0"](a, a, a)]]`},
		{name: "a product that waits is described", graph: "a = Const\nb = Const\nc = MatMul a a ^b @ /gpu:0",
			fails: `(a, a, ^b)]]`},
		{name: "no kernel there", gpus: 1, graph: "a = Const:int32\nb = MatMul a a @ /gpu:0",
			fails: "Cannot assign a device for operation b: Could not satisfy explicit device specification " +
				"'/device:GPU:0' because no supported kernel for GPU devices is available.\nOp: MatMul\nNode attrs: " +
				"T=DT_INT32, transpose_a=false, transpose_b=false\nRegistered kernels:\n  device='GPU'; T in " +
				"[DT_FLOAT]\n  device='GPU'; T in [DT_DOUBLE]\n  device='CPU'; T in [DT_FLOAT]\n  device='CPU'; T " +
				"in [DT_DOUBLE]\n  device='CPU'; T in [DT_INT32]\n\t [[{{node b}}]]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMachine(t, max(row.cpus, 1), cards(row.gpus, "T4")...)
			var g graph.Graph
			nodes := script(t, &g, row.graph)
			s := graph.NewSession(&g, m.Devices, graph.SessionOptions{SoftPlacement: row.soft})
			_, _, err := s.Run(graph.RunRequest{})
			if row.fails != "" {
				require.ErrorContains(t, err, row.fails)
				must.Fail(t, status.InvalidArgument, err)
				return
			}
			require.NoError(t, err)
			var got []string
			for i := range size(&g) {
				n, _ := g.Node(i)
				got = append(got, n.Name()+"="+whereIs(t, s, n))
			}
			require.Equal(t, row.want, strings.Join(got, " "))
			require.Len(t, nodes, size(&g))
		})
	}
}

// whereIs returns a placed node's device in short form: "GPU:0".
func whereIs(t require.TestingT, s *graph.Session, n *graph.Node) string {
	full, placed := s.Placement(n)
	require.True(t, placed)
	short, local := strings.CutPrefix(full, "/job:localhost/replica:0/task:0/device:")
	require.True(t, local, full)
	return short
}

func TestMalformedRequest(t *testing.T) {
	var g graph.Graph
	for _, bad := range []string{"GPU:0", "/device: GPU:0", "/gpu:-1", "nonsense"} {
		_, err := g.Add(graph.NodeSpec{Op: graph.Const, Device: bad, Value: value(gpu.Float32, nil, 1)})
		require.ErrorContains(t, err, "Malformed device specification '"+bad+"'")
		must.Fail(t, status.InvalidArgument, err)
	}
	require.Zero(t, size(&g))
}

// A graph may grow between runs: placements remain, and only new nodes are logged.
func TestGrowingGraph(t *testing.T) {
	m := newMachine(t, 1, cards(2, "T4")...)
	var g graph.Graph
	nodes := script(t, &g, "a = Const\nb = MatMul a a @ /gpu:1")
	s := graph.NewSession(&g, m.Devices, logged)
	fetch(t, s, nodes["b"])
	require.Len(t, s.DrainLog(), 3+2)
	late := apply(t, &g, graph.AddN, "/cpu:0", nodes["a"], nodes["b"])
	_, placed := s.Placement(late)
	require.False(t, placed)
	got, _ := fetch(t, s, late)
	require.Equal(t, []float64{3, 3, 3, 3}, numbersOf(got))
	require.Equal(t, []string{"AddN: /job:localhost/replica:0/task:0/cpu:0"}, s.DrainLog())
	require.Equal(t, "GPU:1", whereIs(t, s, nodes["a"]))

	wrong := add(t, &g, graph.NodeSpec{Op: graph.Const, Name: "wrong", Device: "/gpu:9",
		Value: value(gpu.Float32, nil, 1)})
	_, _, err := s.Run(graph.RunRequest{Fetches: []*graph.Node{late}})
	require.ErrorContains(t, err, "Could not satisfy explicit device specification '/gpu:9'")
	_, placed = s.Placement(wrong)
	require.False(t, placed)
	require.Equal(t, "CPU:0", whereIs(t, s, late), "what was placed stays")
	soft := graph.NewSession(&g, m.Devices, graph.SessionOptions{SoftPlacement: true})
	fetch(t, soft, late)
}

func TestPlacementIsTheSameEveryTime(t *testing.T) {
	m := newMachine(t, 2, cards(4, "T4")...)
	var g graph.Graph
	chain(t, &g, 3000, 6)
	var first []string
	for range 5 {
		s := graph.NewSession(&g, m.Devices, graph.SessionOptions{SoftPlacement: true, LogPlacement: true})
		must.OK2(s.Run(graph.RunRequest{}))(t)
		log := s.DrainLog()
		require.Len(t, log, 1+4+size(&g))
		if first == nil {
			first = log
		}
		require.Equal(t, first, log)
	}
}

// chain extends a graph by n nodes that read each other in many ways, with varying requested devices.
func chain(t require.TestingT, g *graph.Graph, n, devices int) {
	var nodes []*graph.Node
	for i := range n {
		on := ""
		if i%3 == 0 {
			on = fmt.Sprintf("/device:GPU:%d", i%devices)
		}
		switch {
		case i%4 == 0 || len(nodes) < 3:
			nodes = append(nodes,
				add(t, g, graph.NodeSpec{Op: graph.Const, Device: on, Value: value(gpu.Float32, graph.Shape{2, 2}, 1)}))
		case i%4 == 1:
			nodes = append(nodes, apply(t, g, graph.MatMul, on, nodes[i-1], nodes[i/2]))
		case i%4 == 2:
			nodes = append(nodes, apply(t, g, graph.AddN, on, nodes[i-1], nodes[i-2], nodes[i-3]))
		default:
			nodes = append(nodes, apply(t, g, graph.Identity, on, nodes[i-1]))
		}
	}
}

func TestDevicesAreChecked(t *testing.T) {
	cpu := graph.Device{Name: devname.LocalDevice("CPU", 0)}
	card := graph.Device{Name: devname.LocalDevice("GPU", 0)}
	must.Fail(t, status.FailedPrecondition, must.Err(graph.NewDevices([]graph.Device{card})))
	must.Fail(t, status.FailedPrecondition, must.Err(graph.NewDevices(nil)))
	must.Fail(t, status.InvalidArgument, must.Err(graph.NewDevices([]graph.Device{cpu, cpu})))
	_, err := graph.NewDevices([]graph.Device{cpu, graph.Device{Name: devname.Name{HasType: true, Type: "GPU"}}})
	must.Fail(t, status.InvalidArgument, err)
}
