package placement_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
	"gpuconf/gocore/tf/graph"
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
