package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

// run executes a request and returns the numbers of its fetches.
func run(t *testing.T, s *graph.Session, request graph.RunRequest) ([][]float64, graph.RunStats) {
	out, stats := must.OK2(s.Run(request))(t)
	var numbers [][]float64
	for _, tensor := range out {
		numbers = append(numbers, numbersOf(content(t, tensor)))
	}
	return numbers, stats
}

// A node runs after its control inputs, which run although nothing reads them. The sizes of the tensors show the order.
func TestControlInputsRunFirst(t *testing.T) {
	m := newMachine(t, 1, cards(1, "T4")...)
	var g graph.Graph
	constant := func(name string, elements int64, controls ...*graph.Node) *graph.Node {
		return add(t, &g, graph.NodeSpec{
			Op: graph.Const, Name: name, Value: value(gpu.Float32, graph.Shape{elements}, 1), Controls: controls,
			Device: "/device:CPU:0",
		})
	}
	first := constant("first", 100)
	unrelated := constant("unrelated", 200)
	second := constant("second", 300, first)
	third := constant("third", 400, second, first)
	s := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	for _, request := range []graph.RunRequest{
		{Fetches: []*graph.Node{third}},
		{Targets: []*graph.Node{third}},
		{Fetches: []*graph.Node{third, first}, Targets: []*graph.Node{second, third}},
	} {
		m.faults.sizes = nil
		_, stats := run(t, s, request)
		require.Equal(t, 3, stats.Nodes)
		require.Equal(t, []uint64{400, 1200, 1600}, m.faults.sizes)
	}
	_, stats := run(t, s, graph.RunRequest{Targets: []*graph.Node{unrelated}})
	require.Equal(t, 1, stats.Nodes)

	var other graph.Graph
	foreign := zeros(t, &other, gpu.Float32, 1)
	_, err := g.Add(graph.NodeSpec{Op: graph.Identity, Inputs: []*graph.Node{first}, Controls: []*graph.Node{foreign}})
	must.Fail(t, status.InvalidArgument, err, "must be from the same graph")
	_, err = g.Add(graph.NodeSpec{Op: graph.Identity, Inputs: []*graph.Node{first}, Controls: []*graph.Node{nil}})
	must.Fail(t, status.InvalidArgument, err)
}

// A tensor that nothing reads is freed at once, so that a long list of control inputs takes no memory.
func TestUnreadTensorsGoAtOnce(t *testing.T) {
	m := newMachine(t, 1, cards(1, "T4")...)
	var g graph.Graph
	var controls []*graph.Node
	for range 50 {
		controls = append(controls, zeros(t, &g, gpu.Float32, 1000))
	}
	last := add(t, &g, graph.NodeSpec{Op: graph.Identity, Inputs: controls[:1], Controls: controls[1:]})
	run(t, graph.NewSession(&g, m.Devices, graph.SessionOptions{}), graph.RunRequest{Targets: []*graph.Node{last}})
	require.Equal(t, 2, m.faults.peak, "the operand, and the constant under way")
}

// A target is executed but not copied to the host.
func TestTargetsAreNotFetched(t *testing.T) {
	m := newMachine(t, 1, cards(1, "T4")...)
	var g graph.Graph
	n := script(t, &g, "a = Const @ /gpu:0\nb = MatMul a a @ /gpu:0")
	out, stats := must.OK2(graph.NewSession(&g, m.Devices, graph.SessionOptions{}).Run(
		graph.RunRequest{Targets: []*graph.Node{n["b"]}}))(t)
	require.Empty(t, out)
	require.Equal(t, graph.RunStats{Nodes: 2}, stats)
}

func TestFeeds(t *testing.T) {
	m := newMachine(t, 1, cards(2, "T4")...)
	var g graph.Graph
	n := script(t, &g, "z = Const\na = Const ^z @ /gpu:0\nb = Add a a @ /gpu:1\nc = Add b a @ /gpu:0\nd = Identity "+
		"c ^a @ /cpu:0")
	s := graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	feed := func(name string, numbers ...float64) graph.Feed {
		return graph.Feed{Node: n[name], Value: value(gpu.Float32, graph.Shape{2, 2}, numbers...)}
	}
	fives, tens := feed("a", 5, 6, 7, 8), feed("b", 10, 20, 30, 40)
	for name, row := range map[string]struct {
		feeds []graph.Feed
		want  []float64
		nodes int
	}{
		"nothing":             {nil, []float64{3, 3, 3, 3}, 5},
		"a constant":          {[]graph.Feed{fives}, []float64{15, 18, 21, 24}, 3},
		"an operation":        {[]graph.Feed{tens}, []float64{11, 21, 31, 41}, 4},
		"both":                {[]graph.Feed{fives, tens}, []float64{15, 26, 37, 48}, 2},
		"what is fetched":     {[]graph.Feed{feed("d", 1, 2, 3, 4)}, []float64{1, 2, 3, 4}, 0},
		"what is not needed":  {[]graph.Feed{feed("c", 0, 1, 2, 3), fives}, []float64{0, 1, 2, 3}, 1},
		"the same node twice": {[]graph.Feed{tens, fives, fives}, []float64{15, 26, 37, 48}, 2},
	} {
		numbers, stats := run(t, s, graph.RunRequest{Fetches: []*graph.Node{n["d"], n["d"]}, Feeds: row.feeds})
		require.Equal(t, [][]float64{row.want, row.want}, numbers, name)
		require.Equal(t, row.nodes, stats.Nodes, name)
	}
	var other graph.Graph
	for name, feed := range map[string]graph.Feed{
		"another shape":     {Node: n["a"], Value: value(gpu.Float32, graph.Shape{4}, 1, 2, 3, 4)},
		"another type":      {Node: n["a"], Value: value(gpu.Int32, graph.Shape{2, 2}, 1, 2, 3, 4)},
		"too few elements":  {Node: n["a"], Value: value(gpu.Float32, graph.Shape{2, 2}, 1)},
		"too many elements": {Node: n["a"], Value: value(gpu.Float32, graph.Shape{2, 2}, 1, 2, 3, 4, 5)},
		"no node":           {Value: value(gpu.Float32, graph.Shape{})},
		"a node of elsewhere": {Node: zeros(t, &other, gpu.Float32, 2),
			Value: value(gpu.Float32, graph.Shape{2}, 1, 2)},
	} {
		_, _, err := s.Run(graph.RunRequest{Fetches: []*graph.Node{n["d"]}, Feeds: []graph.Feed{feed}})
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), name)
	}

	// After any failure, nothing is left behind.
	for _, kind := range []string{"allocate", "copy", "compute", "free"} {
		for nth := 1; ; nth++ {
			m.faults.kind, m.faults.left = kind, nth
			out, _, err := s.Run(graph.RunRequest{
				Fetches: []*graph.Node{n["d"], n["a"]}, Targets: []*graph.Node{n["z"], n["b"]},
				Feeds: []graph.Feed{fives},
			})
			if m.faults.left > 0 {
				m.faults.left = 0
				require.NoError(t, err)
				require.Equal(t, []float64{5, 6, 7, 8}, numbersOf(content(t, out[1])))
				require.NoError(t, out[0].Release())
				break
			}
			require.ErrorIs(t, err, errInjected, "%s %d", kind, nth)
			require.Equal(t, make([]uint64, 3), m.inUse(), "%s %d", kind, nth)
		}
	}
}

func TestListDevices(t *testing.T) {
	m := newMachine(t, 2, cards(1, "T4")...)
	var g graph.Graph
	s, other := graph.NewSession(&g, m.Devices, graph.SessionOptions{}),
		graph.NewSession(&g, m.Devices, graph.SessionOptions{})
	list := must.OK(s.ListDevices())(t)
	require.Equal(t, list, must.OK(s.ListDevices())(t))
	theirs := must.OK(other.ListDevices())(t)
	for i, want := range []graph.DeviceAttributes{
		{Name: "/job:localhost/replica:0/task:0/device:CPU:0", Type: "CPU", MemoryLimit: 256 << 20},
		{Name: "/job:localhost/replica:0/task:0/device:CPU:1", Type: "CPU", MemoryLimit: 256 << 20},
		{Name: "/job:localhost/replica:0/task:0/device:GPU:0", Type: "GPU", MemoryLimit: poolBytes},
	} {
		require.NotEqual(t, theirs[i].Incarnation, list[i].Incarnation)
		list[i].Incarnation = 0
		require.Equal(t, want, list[i])
	}
	m.faults.kind, m.faults.left = "limit", 2
	require.ErrorIs(t, must.Err(s.ListDevices()), errInjected)
}
