package graph_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

// The listings of TensorFlow's guide "Use a GPU", with the output that it prints. A request is the result of the page's
// tf.device after the scopes are merged.

// ab are the page's a and b.
func ab(t *testing.T, g *graph.Graph, nameA, nameB, on string) (a, b *graph.Node) {
	request := scope(t, on)
	return constant(t, g, nameA, request, graph.Shape{2, 3}, 1, 2, 3, 4, 5, 6),
		constant(t, g, nameB, request, graph.Shape{3, 2}, 1, 2, 3, 4, 5, 6)
}

func scope(t *testing.T, on string) string {
	return must.OK(graph.Request("", on))(t)
}

// page splits printed output into lines, without the page's line wraps.
func page(text string) []string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "pci bus\nid:", "pci bus id:")
	return strings.Split(text, "\n")
}

var logged = graph.SessionOptions{LogPlacement: true}

// product builds the page's product of a and b, and a session that logs.
func product(t *testing.T, m *machine, options graph.SessionOptions, on, of string) (
	a, c *graph.Node, s *graph.Session) {
	var g graph.Graph
	a, b := ab(t, &g, "a", "b", on)
	c = apply(t, &g, graph.MatMul, of, a, b)
	return a, c, graph.NewSession(&g, m.Devices, options)
}

func TestListings(t *testing.T) {
	k40c := cards(1, "Tesla K40c", "0000:05:00.0")
	const mapping = `
Device mapping:
/job:localhost/replica:0/task:0/gpu:0 -> device: 0, name: Tesla K40c, pci bus
id: 0000:05:00.0
`
	for name, tt := range map[string]struct {
		cards  []gpu.Device
		on, of string // the devices of a and b, and of the product
		log    string
		stats  graph.RunStats
	}{
		"logging": {k40c, "", "", mapping + `b: /job:localhost/replica:0/task:0/gpu:0
a: /job:localhost/replica:0/task:0/gpu:0
MatMul: /job:localhost/replica:0/task:0/gpu:0
`, graph.RunStats{Nodes: 3, Copies: 1, CopiedBytes: 16}}, // only the result leaves the GPU
		"manual": {k40c, "/cpu:0", "", mapping + `b: /job:localhost/replica:0/task:0/cpu:0
a: /job:localhost/replica:0/task:0/cpu:0
MatMul: /job:localhost/replica:0/task:0/gpu:0
`, graph.RunStats{Nodes: 3, Copies: 3, CopiedBytes: 64}}, // a, b and the result were copied
		"chosen": {cards(3, "Tesla K20m", "0000:02:00.0", "0000:03:00.0", "0000:83:00.0"), "/gpu:2",
			scope(t, "/gpu:2"), `
Device mapping:
/job:localhost/replica:0/task:0/gpu:0 -> device: 0, name: Tesla K20m, pci bus
id: 0000:02:00.0
/job:localhost/replica:0/task:0/gpu:1 -> device: 1, name: Tesla K20m, pci bus
id: 0000:03:00.0
/job:localhost/replica:0/task:0/gpu:2 -> device: 2, name: Tesla K20m, pci bus
id: 0000:83:00.0
b: /job:localhost/replica:0/task:0/gpu:2
a: /job:localhost/replica:0/task:0/gpu:2
MatMul: /job:localhost/replica:0/task:0/gpu:2
`, graph.RunStats{Nodes: 3, Copies: 1, CopiedBytes: 16}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, 1, tt.cards...)
			_, c, s := product(t, m, logged, tt.on, tt.of)
			got, stats := fetch(t, s, c)
			require.Equal(t, value(gpu.Float32, graph.Shape{2, 2}, 22, 28, 49, 64), got)
			require.Equal(t, page(tt.log), s.DrainLog())
			require.Equal(t, tt.stats, stats)
			for _, pool := range m.pools[:len(m.pools)-1] {
				require.Zero(t, pool.Stats().NumAllocs)
			}
			fetch(t, s, c)
			require.Empty(t, s.DrainLog(), "a node is logged once")
		})
	}
}

func TestMissingGPU(t *testing.T) {
	for _, gpus := range []int{0, 1, 2} {
		m := newMachine(t, 1, cards(gpus, "Tesla K40c")...)
		a, c, s := product(t, m, logged, "/gpu:2", scope(t, "/gpu:2"))
		s.DrainLog()
		_, _, err := s.Run(graph.RunRequest{Fetches: []*graph.Node{c}})
		must.Fail(t, status.InvalidArgument, err)
		want := `Invalid argument: Cannot assign a device to node 'b':
Could not satisfy explicit device specification '/gpu:2'
[[Node: b = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [3,2]
values: 1 2 3...>, _device="/gpu:2"]()]]`
		require.Contains(t, strings.Join(strings.Fields(err.Error()), " "), strings.Join(strings.Fields(want), " "))
		require.ErrorContains(t, err, "allow_soft_placement=True")
		require.Empty(t, s.DrainLog(), "nothing was placed")
		_, placed := s.Placement(a)
		require.False(t, placed)
	}
}

func TestSoftPlacement(t *testing.T) {
	for gpus, want := range []string{"cpu:0", "gpu:0", "gpu:0"} {
		m := newMachine(t, 1, cards(gpus, "Tesla K40c")...)
		options := graph.SessionOptions{SoftPlacement: true, LogPlacement: true}
		_, c, s := product(t, m, options, "/gpu:2", scope(t, "/gpu:2"))
		mapping := s.DrainLog()
		if gpus == 0 {
			require.Equal(t, []string{"Device mapping: no known devices."}, mapping)
		} else {
			require.Len(t, mapping, 1+gpus)
		}
		got, _ := fetch(t, s, c)
		require.Equal(t, []float64{22, 28, 49, 64}, numbersOf(got))
		full := ": /job:localhost/replica:0/task:0/" + want
		require.Equal(t, []string{"b" + full, "a" + full, "MatMul" + full}, s.DrainLog())
	}
}

func TestMultipleGPUs(t *testing.T) {
	m := newMachine(t, 1, cards(4, "Tesla K20m", "0000:02:00.0", "0000:03:00.0", "0000:83:00.0", "0000:84:00.0")...)
	var g graph.Graph
	var c []*graph.Node
	for _, on := range []string{"/gpu:2", "/gpu:3"} {
		a, b := ab(t, &g, "", "", on)
		c = append(c, apply(t, &g, graph.MatMul, scope(t, on), a, b))
	}
	sum := apply(t, &g, graph.AddN, scope(t, "/cpu:0"), c...)
	s := graph.NewSession(&g, m.Devices, logged)
	got, stats := fetch(t, s, sum)
	require.Equal(t, value(gpu.Float32, graph.Shape{2, 2}, 44, 56, 98, 128), got)
	require.Equal(t, page(`
Device mapping:
/job:localhost/replica:0/task:0/gpu:0 -> device: 0, name: Tesla K20m, pci bus
id: 0000:02:00.0
/job:localhost/replica:0/task:0/gpu:1 -> device: 1, name: Tesla K20m, pci bus
id: 0000:03:00.0
/job:localhost/replica:0/task:0/gpu:2 -> device: 2, name: Tesla K20m, pci bus
id: 0000:83:00.0
/job:localhost/replica:0/task:0/gpu:3 -> device: 3, name: Tesla K20m, pci bus
id: 0000:84:00.0
Const_3: /job:localhost/replica:0/task:0/gpu:3
Const_2: /job:localhost/replica:0/task:0/gpu:3
MatMul_1: /job:localhost/replica:0/task:0/gpu:3
Const_1: /job:localhost/replica:0/task:0/gpu:2
Const: /job:localhost/replica:0/task:0/gpu:2
MatMul: /job:localhost/replica:0/task:0/gpu:2
AddN: /job:localhost/replica:0/task:0/cpu:0
`), s.DrainLog())
	require.Equal(t, graph.RunStats{Nodes: 7, Copies: 2, CopiedBytes: 32}, stats)
}
