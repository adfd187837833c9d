package graph_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/host"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/suballoc"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// machine has the devices of one runtime as pybind/process creates them: a CPU in host memory, and simulated GPUs with
// the real allocator. faults can make any of their calls fail.
type machine struct {
	*graph.Devices
	cpu    *host.Memory
	pools  []*bfc.Allocator
	faults *faults
}

// faults counts calls and makes one of a kind fail.
type faults struct {
	mu    sync.Mutex
	kind  string
	left  int // calls of that kind until the one that fails; 0: none fails
	calls map[string]int
	live  int // live buffers
	peak  int
	sizes []uint64 // of all requests for memory
}

var errInjected = status.Errorf(status.Unavailable, "injected")

func (f *faults) hit(kind string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[kind]++
	if kind != f.kind || f.left == 0 {
		return nil
	}
	if f.left--; f.left == 0 {
		return errInjected
	}
	return nil
}

func (f *faults) buffers(change int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live += change
	f.peak = max(f.peak, f.live)
}

// allocated records a request.
func (f *faults) allocated(bytes uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sizes = append(f.sizes, bytes)
}

// memory is a graph.Memory whose calls fail as its faults say.
type memory struct {
	graph.Memory
	faults *faults
}

func (m memory) Allocate(bytes uint64) (addr, id uint64, err error) {
	m.faults.allocated(bytes)
	if err := m.faults.hit("allocate"); err != nil {
		return 0, 0, err
	}
	addr, id, err = m.Memory.Allocate(bytes)
	if err == nil {
		m.faults.buffers(1)
	}
	return addr, id, err
}

func (m memory) Free(addr, id uint64) error {
	if err := m.Memory.Free(addr, id); err != nil {
		return err
	}
	m.faults.buffers(-1)
	return m.faults.hit("free")
}

func (m memory) CopyFromHost(addr, id, offset uint64, src []byte) error {
	if err := m.faults.hit("copy"); err != nil {
		return err
	}
	return m.Memory.CopyFromHost(addr, id, offset, src)
}

func (m memory) CopyToHost(addr, id, offset uint64, dst []byte) error {
	if err := m.faults.hit("copy"); err != nil {
		return err
	}
	return m.Memory.CopyToHost(addr, id, offset, dst)
}

// cardMemory is the memory of a pool.
type cardMemory struct {
	driver  *simulated.Machine
	ordinal int
	pool    *bfc.Allocator
}

func (m cardMemory) Allocate(bytes uint64) (addr, id uint64, err error) {
	b, err := m.pool.Allocate(bytes)
	return b.Addr, b.ID, err
}

func (m cardMemory) Free(addr, id uint64) error { return m.pool.FreeID(addr, id) }

func (m cardMemory) CopyFromHost(addr, _, offset uint64, src []byte) error {
	return m.driver.MemcpyHtoD(m.ordinal, addr+offset, src)
}

func (m cardMemory) CopyToHost(addr, _, offset uint64, dst []byte) error {
	return m.driver.MemcpyDtoH(m.ordinal, dst, addr+offset)
}

// device returns a device of some memory, and with a limit, whose calls fail as the machine's faults say.
func (m *machine) device(name devname.Name, limit uint64, of graph.Memory) graph.Device {
	return graph.Device{Name: name, MemoryLimit: func() (uint64, error) { return limit, m.faults.hit("limit") },
		Memory: memory{of, m.faults}, Compute: faultyCompute{m.faults}}
}

type faultyCompute struct{ faults *faults }

func (c faultyCompute) Gemm(g gpu.Gemm) error {
	if err := c.faults.hit("compute"); err != nil {
		return err
	}
	return host.Compute{}.Gemm(g)
}

func (c faultyCompute) Add(a gpu.Add) error {
	if err := c.faults.hit("compute"); err != nil {
		return err
	}
	return host.Compute{}.Add(a)
}

// cards are the GPUs of the machines in TensorFlow's guides.
func cards(n int, name string, buses ...string) []gpu.Device {
	list := make([]gpu.Device, n)
	for i := range list {
		list[i] = gpu.Device{Ordinal: i, Name: name, PCIBusID: "0000:00:00.0"}
		if i < len(buses) {
			list[i].PCIBusID = buses[i]
		}
	}
	return list
}

const poolBytes = 32 << 20

// newMachine creates a machine with CPUs and GPUs until the test ends, and then checks that nothing is in use.
func newMachine(t testing.TB, cpus int, gpus ...gpu.Device) *machine {
	m := &machine{cpu: &host.Memory{}, faults: &faults{calls: map[string]int{}}}
	var list []graph.Device
	for i := range cpus {
		list = append(list, m.device(devname.LocalDevice("CPU", i), 256<<20, m.cpu))
	}
	if len(gpus) > 0 {
		list = append(list, m.addGPUs(t, gpus)...)
	}
	t.Cleanup(func() { m.requireIdle(t) })

	m.Devices = must.OK(graph.NewDevices(list))(t)
	return m
}

func (m *machine) addGPUs(t testing.TB, gpus []gpu.Device) (list []graph.Device) {
	spec := must.OK(models.ParseSpec(fmt.Sprintf("%dxT4:64MiB", len(gpus))))(t)
	driver := must.OK(simulated.New(spec, simulated.Options{}))(t)
	t.Cleanup(func() { require.NoError(t, driver.Close()) })
	for i, card := range gpus {
		require.NoError(t, driver.ContextRetain(i))
		regions := suballoc.NewRegions(upstream{driver, i}, suballoc.Options{LimitBytes: poolBytes, Growth: true})
		pool := must.OK(bfc.New(regions, bfc.Options{Name: fmt.Sprintf("GPU_%d_bfc", i)}))(t)
		m.pools = append(m.pools, pool)
		device := m.device(devname.LocalDevice("GPU", i), poolBytes, cardMemory{driver, i, pool})
		device.Description = graph.DescribeGPU(card)
		list = append(list, device)
	}
	return list
}

type upstream struct {
	driver  *simulated.Machine
	ordinal int
}

func (u upstream) MemAlloc(bytes uint64) (uint64, error) { return u.driver.MemAlloc(u.ordinal, bytes) }
func (u upstream) MemFree(addr uint64) error             { return u.driver.MemFree(u.ordinal, addr) }

// inUse returns the live bytes of the host and of each GPU.
func (m *machine) inUse() []uint64 {
	_, bytes := m.cpu.Stats()
	all := []uint64{bytes}
	for _, pool := range m.pools {
		all = append(all, pool.Stats().BytesInUse)
	}
	return all
}

// requireIdle checks that no byte is in use and every allocator's accounting is correct.
func (m *machine) requireIdle(t testing.TB) {
	require.Equal(t, make([]uint64, len(m.pools)+1), m.inUse())
	for _, pool := range m.pools {
		require.NoError(t, pool.Check())
	}
}

// value returns a tensor's value with these elements.
func value(dtype gpu.DType, shape graph.Shape, numbers ...float64) graph.Value {
	v := graph.Value{DType: dtype, Shape: shape}
	for _, n := range numbers {
		switch dtype {
		case gpu.Float32:
			v.Bytes = binary.NativeEndian.AppendUint32(v.Bytes, math.Float32bits(float32(n)))
		case gpu.Float64:
			v.Bytes = binary.NativeEndian.AppendUint64(v.Bytes, math.Float64bits(n))
		default:
			v.Bytes = binary.NativeEndian.AppendUint32(v.Bytes, uint32(int32(n)))
		}
	}
	return v
}

// numbersOf returns a value's elements.
func numbersOf(v graph.Value) []float64 {
	var numbers []float64
	for raw := range slices.Chunk(v.Bytes, int(v.DType.Bytes())) {
		switch v.DType {
		case gpu.Float32:
			numbers = append(numbers, float64(math.Float32frombits(binary.NativeEndian.Uint32(raw))))
		case gpu.Float64:
			numbers = append(numbers, math.Float64frombits(binary.NativeEndian.Uint64(raw)))
		default:
			numbers = append(numbers, float64(int32(binary.NativeEndian.Uint32(raw))))
		}
	}
	return numbers
}

// content returns a tensor's value and releases it.
func content(t require.TestingT, tensor *graph.Tensor) graph.Value {
	v := must.OK(valueOf(tensor))(t)
	require.NoError(t, tensor.Release())
	return v
}

// valueOf reads a tensor.
func valueOf(tensor *graph.Tensor) (graph.Value, error) {
	v := graph.Value{DType: tensor.DType(), Shape: tensor.Shape(), Bytes: make([]byte, tensor.Bytes())}
	return v, tensor.Read(v.Bytes)
}

// size returns the number of a graph's nodes.
func size(g *graph.Graph) int {
	for n := 0; ; n++ {
		if _, ok := g.Node(n); !ok {
			return n
		}
	}
}

// add adds a node, which must succeed.
func add(t require.TestingT, g *graph.Graph, spec graph.NodeSpec) *graph.Node {
	return must.OK(g.Add(spec))(t)
}

// constant adds a float32 constant.
func constant(t require.TestingT, g *graph.Graph, name, on string, shape graph.Shape, numbers ...float64) *graph.Node {
	return add(t, g, graph.NodeSpec{Op: graph.Const, Name: name, Device: on,
		Value: value(gpu.Float32, shape, numbers...)})
}

// apply adds an operation on nodes.
func apply(t require.TestingT, g *graph.Graph, op graph.Op, on string, in ...*graph.Node) *graph.Node {
	return add(t, g, graph.NodeSpec{Op: op, Device: on, Inputs: in})
}

// fetch runs a session for one node.
func fetch(t require.TestingT, s *graph.Session, n *graph.Node) (graph.Value, graph.RunStats) {
	out, stats := must.OK2(s.Run(graph.RunRequest{Fetches: []*graph.Node{n}}))(t)
	require.Len(t, out, 1)
	return content(t, out[0]), stats
}

func TestMain(m *testing.M) { simulated.Main(m) }
