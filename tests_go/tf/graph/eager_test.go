package graph_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
	"gpuconf/tests_go/must"
)

const local = "/job:localhost/replica:0/task:0"

// enter returns the current device inside scopes, the outermost first.
func enter(t *testing.T, scopes ...string) string {
	name := ""
	for _, s := range scopes {

		name = must.OK(devname.EnterScope(name, &s))(t)
	}
	return name
}

// eager runs a call that must succeed and releases its tensor when the test ends.
func eager(t *testing.T, m *machine, call graph.Call) *graph.Tensor {
	made := must.OK(m.Execute(call))(t)
	t.Cleanup(func() { require.NoError(t, made.Tensor.Release()) })
	return made.Tensor
}

func TestEagerPlacement(t *testing.T) {
	for _, row := range []struct {
		name       string
		cpus, gpus int
		scopes     []string
		soft       bool
		dtype      gpu.DType
		op         graph.Op
		want       string
		backing    string // if it differs
	}{
		{name: "148: no constraint", cpus: 1, gpus: 2, want: "GPU:0"},
		{name: "no GPU", cpus: 1, want: "CPU:0"},
		{name: "a scope", cpus: 1, gpus: 2, scopes: []string{"GPU:1"}, want: "GPU:1"},
		{name: "a scope of the CPU", cpus: 1, gpus: 2, scopes: []string{"CPU"}, want: "CPU:0"},
		{name: "the empty scope", cpus: 1, gpus: 2, scopes: []string{""}, want: "CPU:0"},
		{name: "132: scopes inherit the number", cpus: 2, gpus: 2, scopes: []string{"GPU:1", "CPU"}, want: "CPU:1"},
		{name: "56: the first of two CPUs", cpus: 2, gpus: 1, scopes: []string{"CPU:0"}, soft: true, want: "CPU:0"},
		{name: "56: the second of two CPUs", cpus: 2, gpus: 1, scopes: []string{"CPU:1"}, soft: true, want: "CPU:1"},
		{name: "56: a CPU that is missing, with a GPU", cpus: 2, gpus: 1, scopes: []string{"CPU:2"}, soft: true,
			want: "GPU:0"},
		{name: "56: a CPU that is missing, without", cpus: 2, scopes: []string{"CPU:2"}, soft: true, want: "CPU:0"},
		{name: "146: soft", cpus: 1, gpus: 1, scopes: []string{"GPU:99"}, soft: true, want: "GPU:0"},
		{name: "soft: a strange type", cpus: 1, gpus: 1, scopes: []string{"/device:TPU:0"}, soft: true, want: "GPU:0"},
		{name: "int32 counts as the GPU's", cpus: 1, gpus: 1, dtype: gpu.Int32, want: "GPU:0", backing: "CPU:0"},
		{name: "int32 on a GPU", cpus: 1, gpus: 2, scopes: []string{"GPU:1"}, dtype: gpu.Int32, op: graph.AddN,
			want: "GPU:1", backing: "CPU:0"},
		{name: "no GPU multiplies int32", cpus: 1, gpus: 1, dtype: gpu.Int32, op: graph.MatMul, want: "CPU:0"},
		{name: "no GPU multiplies int32, soft", cpus: 1, gpus: 1, dtype: gpu.Int32, op: graph.MatMul,
			scopes: []string{"GPU:0"}, soft: true, want: "CPU:0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMachine(t, row.cpus, cards(row.gpus, "T4")...)
			if row.dtype == 0 {
				row.dtype = gpu.Float32
			}
			call := graph.Call{Op: graph.Const, Value: value(row.dtype, graph.Shape{2, 2}, 1),
				Device: enter(t, row.scopes...), SoftPlacement: row.soft}
			if row.op != "" {
				call.Value.Shape = graph.Shape{2, 2}
				x := eager(t, m, graph.Call{Op: graph.Const, Value: call.Value})
				call = graph.Call{Op: row.op, Inputs: []*graph.Tensor{x, x}, Device: call.Device,
					SoftPlacement: row.soft}
			}
			got := eager(t, m, call)
			require.Equal(t, local+"/device:"+row.want, got.Device())
			if row.backing == "" {
				row.backing = row.want
			}
			require.Equal(t, local+"/device:"+row.backing, got.BackingDevice().String())
			name := string(call.Op)
			if call.Op == graph.Const {
				name = "_EagerConst"
			}
			require.Equal(t, "Executing op "+name+" in device "+got.Device(), m.ExecutingLine(call.Op, got))
		})
	}
}

func TestEagerPlacementErrors(t *testing.T) {
	for _, row := range []struct {
		name   string
		gpus   int
		device string
		soft   bool
		op     graph.Op
		dtype  gpu.DType
		text   string
		code   status.Code
	}{
		{name: "146: hard", gpus: 1, device: enter(t, "GPU:99"), op: graph.Identity, dtype: gpu.Float32,
			code: status.InvalidArgument,
			text: "Could not satisfy device specification '" + local + "/device:GPU:99'. enable_soft_placement=0. " +
				"Supported device types [GPU, CPU]. All available devices [" + local + "/device:GPU:0, " + local +
				"/device:CPU:0]. [Op:Identity] name: mine"},
		{name: "28: no GPU", device: enter(t, "GPU:0"), op: graph.Identity, dtype: gpu.Float64,
			code: status.InvalidArgument,
			text: "Could not satisfy device specification '" + local + "/device:GPU:0'. enable_soft_placement=0. " +
				"Supported device types [CPU]. All available devices [" + local +
				"/device:CPU:0]. [Op:Identity] name: mine"},
		{name: "no kernel", gpus: 1, device: enter(t, "GPU:0"), op: graph.MatMul, dtype: gpu.Int32,
			code: status.InvalidArgument,
			text: "enable_soft_placement=0. Supported device types [CPU]."},
		{name: "soft, but another job", gpus: 1, device: enter(t, "/job:worker/device:GPU:0"), soft: true,
			op: graph.Identity, dtype: gpu.Float32, code: status.InvalidArgument,
			text: "Could not satisfy device specification '/job:worker/replica:0/task:0/device:GPU:0'. " +
				"enable_soft_placement=1."},
		{name: "no name", gpus: 1, device: enter(t, "GPU:-1"), op: graph.Identity, dtype: gpu.Float32,
			code: status.InvalidArgument,
			text: "Malformed device specification '" + local + "/device:GPU:-1' in eager op: Name: Identity " +
				"[Op:Identity] name: mine"},
		{name: "147: no operation", gpus: 1, op: "FakeOp", dtype: gpu.Float32, code: status.NotFound,
			text: "Could not find device for node: {{node mine}} = FakeOp[]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMachine(t, 1, cards(row.gpus, "T4")...)
			x := eager(t, m, graph.Call{Op: graph.Const, Value: value(row.dtype, graph.Shape{2, 2}, 1)})
			inputs := []*graph.Tensor{x}
			if row.op == graph.MatMul {
				inputs = append(inputs, x)
			}
			before := m.inUse()
			_, err := m.Execute(graph.Call{Op: row.op, Name: "mine", Inputs: inputs, Device: row.device,
				SoftPlacement: row.soft})
			require.ErrorContains(t, err, row.text)
			require.Equal(t, row.code, status.CodeOf(err))
			require.Equal(t, before, m.inUse())
		})
	}
}

// TensorFlow's text about the device of a constant ends without the operation. gpuconf's had "[Op:_EagerConst]" after
// it.
func TestPlacementErrorsOfConstants(t *testing.T) {
	m := newMachine(t, 1)
	for device, text := range map[string]string{
		enter(t, "GPU:1000"):          "All available devices [" + local + "/device:CPU:0].",
		enter(t, "/job:worker/cpu:0"): "/job:worker/replica:0/task:0/device:CPU:0 unknown device.",
	} {
		_, err := m.Execute(graph.Call{Op: graph.Const, Value: value(gpu.Float32, graph.Shape{2}, 1), Device: device})
		require.Equal(t, status.InvalidArgument, status.CodeOf(err))
		require.True(t, strings.HasSuffix(err.Error(), text), err.Error())
	}
}

func TestDevicePolicy(t *testing.T) {
	for _, row := range []struct {
		policy string
		dtype  gpu.DType
		from   string
		to     string
		op     graph.Op
		copies int
		warns  bool
		fails  bool
	}{
		{policy: "silent", dtype: gpu.Float32, from: "CPU:0", to: "GPU:0", op: graph.MatMul, copies: 2},
		{policy: "warn", dtype: gpu.Float32, from: "CPU:0", to: "GPU:0", op: graph.MatMul, copies: 2, warns: true},
		{policy: "explicit", dtype: gpu.Float32, from: "CPU:0", to: "GPU:0", op: graph.MatMul, fails: true},
		{policy: "explicit", dtype: gpu.Float32, from: "GPU:0", to: "GPU:0", op: graph.MatMul},
		{policy: "explicit", dtype: gpu.Float32, from: "CPU:0", to: "GPU:0", op: graph.Identity, copies: 1},
		{policy: "explicit", dtype: gpu.Float32, from: "GPU:1", to: "CPU:0", op: graph.Add, fails: true},
		{policy: "explicit", dtype: gpu.Int32, from: "CPU:1", to: "CPU:0", op: graph.MatMul, fails: true},
		{policy: "explicit", dtype: gpu.Int32, from: "GPU:1", to: "CPU:0", op: graph.MatMul}, // both in host memory
		{policy: "silent_for_int32", dtype: gpu.Float32, from: "CPU:0", to: "GPU:0", op: graph.MatMul, fails: true},
		{policy: "silent_for_int32", dtype: gpu.Int32, from: "CPU:1", to: "CPU:0", op: graph.MatMul, copies: 2},
		{policy: "silent_for_int32", dtype: gpu.Int32, from: "CPU:1", to: "GPU:0", op: graph.AddN, copies: 2},
	} {
		t.Run("100: "+row.policy+" "+row.dtype.String()+" "+row.from+" to "+row.to+" "+string(row.op),
			func(t *testing.T) {
				m := newMachine(t, 2, cards(2, "T4")...)
				policy := must.OK(graph.ParsePolicy(row.policy))(t)
				x := eager(t, m, graph.Call{Op: graph.Const, Value: value(row.dtype, graph.Shape{2, 2}, 1),
					Device: local +
						"/device:" + row.from, Policy: policy})
				inputs := []*graph.Tensor{x, x}
				if row.op == graph.Identity {
					inputs = inputs[:1]
				}
				before := m.inUse()
				made, err := m.Execute(graph.Call{Op: row.op, Inputs: inputs, Device: local + "/device:" + row.to,
					Policy: policy})
				from, to := local+"/device:"+row.from, local+"/device:"+row.to
				called := map[graph.Op]string{graph.Add: "AddV2"}[row.op] // TensorFlow 2's name
				if called == "" {
					called = string(row.op)
				}
				where := called + " as input #0 was expected to be on " + to + " but is actually on " + from +
					" (operation running on " + to + ")"
				if row.fails {
					must.Fail(t, status.InvalidArgument, err)
					require.ErrorContains(t, err,
						"Tensors on conflicting devices: cannot compute "+where+" Tensors can be copied explicitly "+
							"using: `with tf.device(device_name): x = tf.identity(x)` or transparently copied by "+
							"using tf.config.experimental.set_device_policy('silent'). Copying tensors between "+
							"devices may slow down your model [Op:"+called+"] name: ")
					require.Equal(t, before, m.inUse())
					return
				}
				require.NoError(t, err)
				require.Equal(t, row.copies, made.Copies)
				if row.warns {
					require.Len(t, made.Warnings, 2)
					require.Equal(
						t, "before computing MatMul input #0 was expected to be on "+to+" but is actually on "+from+
							" (operation running on "+to+"). This triggers a copy which can be a performance "+
							"bottleneck.",
						made.Warnings[0])
				} else {
					require.Empty(t, made.Warnings)
				}
				require.NoError(t, made.Tensor.Release())
				require.Equal(t, before, m.inUse())
			})
	}
	must.Fail(t, status.InvalidArgument, must.Err(graph.ParsePolicy("loud")))
}

func TestTensorOfAnotherRuntime(t *testing.T) {
	m, other := newMachine(t, 1), newMachine(t, 1)
	theirs := eager(t, other, graph.Call{Op: graph.Const, Value: value(gpu.Float32, nil, 1)})
	_, err := m.Execute(graph.Call{Op: graph.Identity, Inputs: []*graph.Tensor{theirs}})
	must.Fail(t, status.InvalidArgument, err, "input #0 is a tensor of another runtime")
	_, err = m.Execute(graph.Call{Op: graph.Identity, Inputs: []*graph.Tensor{nil}})
	must.Fail(t, status.InvalidArgument, err)
}

func TestEagerWalkOfFailures(t *testing.T) {
	m := newMachine(t, 1, cards(2, "T4")...)
	a := eager(t, m, graph.Call{Op: graph.Const, Value: value(gpu.Float32, graph.Shape{2, 2}, 1), Device: local +
		"/device:GPU:1"})
	b := eager(t, m, graph.Call{Op: graph.Const, Value: value(gpu.Float32, graph.Shape{2, 2}, 1), Device: local +
		"/device:CPU:0"})
	before := m.inUse()
	for kind, want := range map[string]int{"allocate": 4, "copy": 6, "compute": 2, "free": 3} {
		failed := 0
		for nth := 1; ; nth++ {
			m.faults.kind, m.faults.left = kind, nth
			made, err := m.Execute(graph.Call{Op: graph.AddN, Inputs: []*graph.Tensor{a, b, a}, Device: local +
				"/device:GPU:0"})
			if m.faults.left > 0 {
				m.faults.left = 0
				require.NoError(t, err)
				require.NoError(t, made.Tensor.Release())
				break
			}
			failed++
			require.ErrorIs(t, err, errInjected)
			must.Fail(t, status.Unavailable, err)
			require.Nil(t, made.Tensor)
			require.Equal(t, before, m.inUse(), "%s %d", kind, nth)
		}
		require.Equal(t, want, failed, kind)
	}
}
