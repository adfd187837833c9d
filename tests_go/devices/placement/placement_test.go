package placement_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/devices/placement"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/host"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/tf/config"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/machine/simulated"
	"gpuconf/tests_go/must"
)

// float32s returns a tensor's contents.
func float32s(shape graph.Shape, numbers ...float32) graph.Value {
	v := graph.Value{DType: gpu.Float32, Shape: shape}
	for _, n := range numbers {
		v.Bytes = binary.NativeEndian.AppendUint32(v.Bytes, math.Float32bits(n))
	}
	return v
}

func at(name string) string { return "/job:localhost/replica:0/task:0/device:" + name }

func constant(t require.TestingT, d *graph.Devices, device string, v graph.Value) *graph.Tensor {
	return must.OK(d.Execute(graph.Call{Op: graph.Const, Value: v, Device: device}))(t).Tensor
}

func TestOperationsUseTheManagersPoolsAndLeaveThemAsTheyWere(t *testing.T) {
	m := newMachine(t, "2xT4", config.Options{AllowGrowth: true})
	d := devices(t, m, 1, 2)
	before := bytesInUse(t, m)
	x := constant(t, d, at("GPU:1"), float32s(graph.Shape{2, 2}, 1, 2, 3, 4))
	require.Equal(t, []uint64{0, 0, 256}, bytesInUse(t, m))
	product := must.OK(d.Execute(graph.Call{Op: graph.MatMul, Inputs: []*graph.Tensor{x, x}, Device: at("CPU:0")}))(t)
	require.Equal(t, 2, product.Copies, "an eager operation copies each input for itself")
	want := float32s(graph.Shape{2, 2}, 7, 10, 15, 22)
	got := make([]byte, product.Tensor.Bytes())
	require.NoError(t, product.Tensor.Read(got))
	require.Equal(t, want.Bytes, got)
	require.Equal(t, want.Shape, product.Tensor.Shape())
	require.NoError(t, x.Release())
	require.NoError(t, product.Tensor.Release())
	require.Equal(t, before, bytesInUse(t, m))
}

func TestALimitHoldsForOperations(t *testing.T) {
	limit := []config.VirtualDevices{{MemoryLimitMiB: []float64{1}}}
	m := newMachine(t, "T4", config.Options{VirtualDevices: limit})
	d := devices(t, m, 1, 1)
	_, err := d.Execute(graph.Call{Op: graph.Const, Value: float32s(graph.Shape{1 << 20}, 1), Device: at("GPU:0")})
	must.Fail(t, status.ResourceExhausted, err,
		"OOM when allocating tensor with shape[1048576] and type float on "+at("GPU:0"))
	require.ErrorContains(t, err, " out of memory")
	require.ErrorContains(t, err, "limit 1.00MiB")
	require.Equal(t, []uint64{0, 0}, bytesInUse(t, m))
}

func TestAViewHasFewerGPUsAndMoreCPUs(t *testing.T) {
	m := newMachine(t, "2xT4", config.Options{})
	d := devices(t, m, 3, 1)
	_, err := d.Execute(graph.Call{Op: graph.Const, Value: float32s(graph.Shape{}, 1), Device: at("GPU:1")})
	require.ErrorContains(t, err,
		"All available devices ["+at("GPU:0")+", "+at("CPU:0")+", "+at("CPU:1")+", "+at("CPU:2")+"]")
	x := constant(t, d, at("CPU:2"), float32s(graph.Shape{}, 1))
	require.Equal(t, at("CPU:2"), x.Device())
	require.NoError(t, x.Release())
}

func TestDevicesThatAreNotThere(t *testing.T) {
	m := newMachine(t, "T4", config.Options{})
	must.Fail(t, status.InvalidArgument, must.Err(m.Devices(1, 2)), "unknown device GPU:1")
	must.Fail(t, status.FailedPrecondition, must.Err(m.Devices(0, 1)))
}

func TestTheMappingTellsOfTheCards(t *testing.T) {
	m := newMachine(t, "K40,K20", config.Options{VisibleDeviceList: "1,0"})
	require.Equal(t, []string{
		"Device mapping:",
		"/job:localhost/replica:0/task:0/gpu:0 -> device: 1, name: Tesla K20m, pci bus id: 0000:1a:00.0",
		"/job:localhost/replica:0/task:0/gpu:1 -> device: 0, name: Tesla K40c, pci bus id: 0000:17:00.0",
	}, devices(t, m, 1, 2).MappingLines())
}

// Devices created before the pools were rebuilt use the new pools, as far as those exist.
func TestDevicesOutliveTheirPools(t *testing.T) {
	m := newMachine(t, "2xT4", config.Options{})
	d := devices(t, m, 1, 2)
	x := constant(t, d, at("GPU:1"), float32s(graph.Shape{}, 1))
	require.NoError(t, x.Release())
	_, renamed := must.OK2(m.Manager.Join(config.Options{VisibleDeviceList: "0", AllowGrowth: true}, nil, "", nil))(t)
	require.True(t, renamed)
	x = constant(t, d, at("GPU:0"), float32s(graph.Shape{}, 1))
	require.NoError(t, x.Release())
	_, err := d.Execute(graph.Call{Op: graph.Const, Value: float32s(graph.Shape{}, 1), Device: at("GPU:1")})
	must.Fail(t, status.InvalidArgument, err, "unknown device GPU:1: this process has 1 logical GPU")
}

func TestAfterCloseOperationsSaySo(t *testing.T) {
	m := newMachine(t, "T4", config.Options{})
	d := devices(t, m, 1, 1)
	require.NoError(t, m.Manager.Close(false))
	_, err := d.Execute(graph.Call{Op: graph.Const, Value: float32s(graph.Shape{}, 1), Device: at("GPU:0")})
	must.Fail(t, status.FailedPrecondition, err)
}

func TestMain(m *testing.M) { simulated.Main(m) }

// machine is a simulated machine with everything that operations need.
type machine struct {
	placement.Machine
	memory *host.Memory
	sim    *simulated.Machine
}

// newMachine is initialized with the given options. At the end of the test nothing may be left on it.
func newMachine(t testing.TB, spec string, options config.Options) machine {
	parsed := must.OK(models.ParseSpec(spec))(t)
	card := must.OK(simulated.New(parsed, simulated.Options{}))(t)
	manager := must.OK(devmgr.New(card, nil))(t)
	must.OK2(manager.Join(options, nil, "main.py:1", nil))(t)
	memory := &host.Memory{}
	t.Cleanup(func() {
		blocks, bytes := memory.Stats()
		require.Zero(t, blocks, "blocks of host memory left behind")
		require.Zero(t, bytes)
		require.NoError(t, manager.Close(false), "memory of a pool left behind")
	})
	return machine{
		Machine: placement.Machine{
			Manager: manager, Memory: memory, CPU: host.Compute{},
			GPU:    func(int, gpu.Device) gpu.Compute { return host.Compute{} },
			Holder: func() holder.ID { return holder.Of(holder.Gpuconf, 0) },
		},
		memory: memory,
		sim:    card,
	}
}

func devices(t testing.TB, m machine, cpus, gpus int) *graph.Devices {
	return must.OK(m.Devices(cpus, gpus))(t)
}

// bytesInUse returns the bytes in use of host memory, and of each pool.
func bytesInUse(t require.TestingT, m machine) []uint64 {
	_, bytes := m.memory.Stats()
	book := []uint64{bytes}
	for number := range m.Manager.LogicalGPUs() {
		book = append(book, must.OK(m.Manager.MemoryStats("GPU:"+string(rune('0'+number))))(t).BytesInUse)
	}
	return book
}

// BenchmarkProduct multiplies two square matrices: by gonum directly, as one operation on the CPU, and on a simulated
// GPU.
func BenchmarkProduct(b *testing.B) {
	for _, n := range []int{2, 128, 512} {
		numbers := make([]float32, n*n)
		for i := range numbers {
			numbers[i] = rand.Float32()
		}
		b.Run(fmt.Sprintf("gonum/%d", n), func(b *testing.B) {
			for b.Loop() {
				product := make([]float32, n*n)
				gonum.Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, numbers, n, numbers, n,
					0, product, n)
			}
		})
		for _, device := range []string{"CPU:0", "GPU:0"} {
			b.Run(fmt.Sprintf("%s/%d", device, n), func(b *testing.B) {
				d := devices(b, newMachine(b, "T4", config.Options{AllowGrowth: true}), 1, 1)
				x := constant(b, d, at(device), float32s(graph.Shape{int64(n), int64(n)}, numbers...))
				for b.Loop() {
					product, err := d.Execute(graph.Call{Op: graph.MatMul, Inputs: []*graph.Tensor{x, x},
						Device: at(device)})
					if err != nil {
						b.Fatal(err)
					}
					if err := product.Tensor.Release(); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, x.Release())
			})
		}
	}
}
