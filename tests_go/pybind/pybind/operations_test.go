//go:build cgo

package pybind_test

import (
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/pybind"
	"gpuconf/pybind/cabi"
	"gpuconf/tests_go/must"
)

// kept holds every array whose address was passed on as a number. Go sees no pointer in a number: without it an array
// could lie on a stack, which moves when it grows, or be collected before it is read or written.
var kept struct {
	sync.Mutex
	arrays [][]float32
}

// host returns the address and size of numbers, as Python passes an array's.
func host(numbers []float32) (address, bytes int64) {
	if len(numbers) == 0 {
		return 0, 0
	}
	kept.Lock()
	defer kept.Unlock()
	kept.arrays = append(kept.arrays, numbers)
	return int64(uintptr(unsafe.Pointer(&numbers[0]))), int64(len(numbers)) * 4
}

// full returns the full name of a device.
func full(device string) string { return "/job:localhost/replica:0/task:0/device:" + device }

func tensor(t require.TestingT, device, shape string, numbers ...float32) int64 {
	address, bytes := host(numbers)
	return must.OK(pybind.MakeTensor(address, bytes, "float32", shape, "", device))(t) >> 1
}

func read(t require.TestingT, id int64, n int) []float32 {
	numbers := make([]float32, n)
	address, bytes := host(numbers)
	must.OK(pybind.ReadTensor(id, address, bytes))(t)
	return numbers
}

func release(t require.TestingT, ids ...int64) {
	for _, id := range ids {
		must.OK(pybind.ReleaseTensor(id))(t)
	}
}

// live is LiveTensors's result.
type live struct {
	Tensors    []string
	HostBlocks int `json:"host_blocks"`
	HostBytes  int `json:"host_bytes"`
}

func liveTensors(t require.TestingT) (tensors live) {
	require.NoError(t, json.Unmarshal([]byte(must.OK(pybind.LiveTensors())(t)), &tensors))
	return tensors
}

// graphOf returns a graph of a constant and its sum with itself.
func graphOf(t *testing.T, numbers ...float32) (id int64, sum string) {
	id = must.OK(pybind.NewGraph())(t)
	t.Cleanup(func() { must.OK(pybind.DropGraph(id))(t) })
	address, bytes := host(numbers)
	node := must.OK(pybind.AddConstant(id, "a", address, bytes, "float32", fmt.Sprint(len(numbers)), "", ""))(t)
	require.JSONEq(t, fmt.Sprintf(`{"id": 0, "name": "a", "dtype": "float32", "shape": [%d]}`, len(numbers)), node)
	sum = must.OK(pybind.AddNode(id, "Add", "", "0 0", "0", 0, "/device:GPU:0"))(t)
	return id, sum
}

func TestSessionsAcrossTheBorder(t *testing.T) {
	onMachine(t, "T4:16GiB")
	must.OK(pybind.Enumerate("{}"))(t)
	graph, sum := graphOf(t, 1, 2)
	require.JSONEq(t, `{"id": 1, "name": "Add", "dtype": "float32", "shape": [2]}`, sum)
	receipt := must.OK(pybind.OpenSession(graph, `{"log_device_placement": true, "allow_growth": true}`, "{}",
		"main.py:3 (Session)"))(t)
	require.EqualValues(t, 1, receipt&1, "there are devices now")
	session := receipt >> 1
	into := make([]float32, 2)
	address, bytes := host(into)
	ran := must.OK(pybind.RunSession(session, fmt.Sprintf(`{"fetches": [[1, %d, %d]]}`, address, bytes)))(t)
	require.Equal(t, []float32{2, 4}, into)
	require.Equal(t, "2 1 8", ran, "two operations, and the result is copied")
	from, size := host([]float32{5, 6})
	ran = must.OK(pybind.RunSession(session,
		fmt.Sprintf(`{"fetches": [[1, %d, %d]], "feeds": [[0, %d, %d, 2]], "targets": [1]}`, address, bytes,
			from, size)))(t)
	require.Equal(t, []float32{10, 12}, into)
	require.Equal(t, "1 2 16", ran, "one operation; what is fed is copied to the GPU")
	require.Equal(t, live{Tensors: []string{}}, liveTensors(t))

	for name, step := range map[string]string{
		"a node that is not there": fmt.Sprintf(`{"fetches": [[2, %d, %d]]}`, address, bytes),
		"a target that is not":     `{"targets": [-1]}`,
		"a feed that is not":       fmt.Sprintf(`{"feeds": [[2, %d, %d, 2]]}`, address, bytes),
		"too little room":          fmt.Sprintf(`{"fetches": [[1, %d, %d]]}`, address, bytes-4),
		"no room":                  `{"fetches": [[1, 0, 0]]}`,
		"nowhere":                  `{"fetches": [[1, -8, 8]]}`,
		"a feed that is too short": fmt.Sprintf(`{"targets": [1], "feeds": [[0, %d, %d, 2]]}`, address, bytes-4),
		"a feed of another shape":  fmt.Sprintf(`{"targets": [1], "feeds": [[0, %d, %d, 1, 2]]}`, address, bytes),
		"a feed of no shape":       fmt.Sprintf(`{"targets": [1], "feeds": [[0, %d, %d, -1, -2]]}`, address, bytes),
		"a feed from nowhere":      `{"targets": [1], "feeds": [[0, -8, 8, 2]]}`,
	} {
		require.NotEmpty(t, requireKind(t, status.InvalidArgument, must.Err(pybind.RunSession(session, step))), name)
		require.Equal(t, live{Tensors: []string{}}, liveTensors(t), name)
	}
	later := must.OK(pybind.OpenSession(graph, "{}", "{}", ""))(t)
	require.Zero(t, later&1)
	for _, id := range []int64{session, later >> 1} {
		must.OK(pybind.CloseSession(id))(t)
	}
	requireKind(t, status.InvalidArgument, must.Err(pybind.CloseSession(session)))
}

func TestRenamedDevicesLeaveScopesBehind(t *testing.T) {
	onMachine(t, "2xT4")
	initialize(t)
	enter(t, full("GPU:1"))
	require.EqualValues(t, 1, cabi.Scope())
	graph, _ := graphOf(t, 1)
	receipt := must.OK(pybind.OpenSession(graph, `{"visible_device_list": "1"}`, "{}", ""))(t)
	require.EqualValues(t, 1, receipt&1)
	b := allocate(t, -1, 1)
	require.EqualValues(t, 0, b.gpu, "the scope named GPU:1, which is gone: it counts as none")
	b.free(t)
	must.OK(pybind.CloseSession(receipt >> 1))(t)
}

func TestOperationsThatCantBe(t *testing.T) {
	onMachine(t, "T4")
	must.OK(pybind.Enumerate("{}"))(t)
	_, err := pybind.Execute("Identity", "1", 0, "", "")
	require.Contains(t, requireKind(t, status.FailedPrecondition, err), "not initialized yet")
	initialize(t)
	id := tensor(t, "", "2", 1, 2)
	defer release(t, id)
	graph, _ := graphOf(t, 1)
	numbers := []float32{1, 2}
	address, bytes := host(numbers)
	for name, row := range map[string]struct {
		err  error
		kind status.Code
		text string
	}{
		"an operation": {must.Err(pybind.Execute("Conv2D", fmt.Sprint(id), 0, "", "")),
			status.NotFound, "Could not find device for node"},
		"no tensor": {must.Err(pybind.Execute("Identity", "99", 0, "", "")),
			status.InvalidArgument, "there is no tensor 99"},
		"no number": {must.Err(pybind.Execute("Identity", "x", 0, "", "")), status.Internal, "decoding"},
		"no inputs": {must.Err(pybind.Execute("MatMul", "", 0, "", "")), status.InvalidArgument, "takes 2 inputs"},
		"a type": {must.Err(pybind.MakeTensor(address, bytes, "float16", "2", "", "")),
			status.InvalidType, "unsupported dtype float16"},
		"a shape": {must.Err(pybind.MakeTensor(address, bytes, "float32", "2,x", "", "")),
			status.Value, "Dimension x"},
		"a negative shape": {must.Err(pybind.MakeTensor(address, bytes, "float32", "-2", "", "")),
			status.Value, "Dimension -2"},
		"too many bytes": {must.Err(pybind.MakeTensor(address, bytes, "float32", "1", "", "")),
			status.InvalidArgument, "Too many elements"},
		"half an element": {must.Err(pybind.MakeTensor(address, 6, "float32", "2", "", "")),
			status.InvalidArgument, "is not a whole number"},
		"an address": {must.Err(pybind.MakeTensor(-address, bytes, "float32", "2", "", "")),
			status.InvalidArgument, "invalid host memory"},
		"beyond all memory": {must.Err(pybind.MakeTensor(address, math.MaxInt64, "float32", "2", "", "")),
			status.InvalidArgument, "invalid host memory"},
		"little room": {must.Err(pybind.ReadTensor(id, address, 4)),
			status.InvalidArgument, "does not match a tensor"},
		"a graph": {must.Err(pybind.AddNode(99, "Identity", "", "0", "", 0, "")),
			status.InvalidArgument, "there is no graph 99"},
		"a session": {must.Err(pybind.RunSession(99, "{}")), status.InvalidArgument, "there is no session 99"},
		"a session's graph": {must.Err(pybind.OpenSession(99, "{}", "{}", "")),
			status.InvalidArgument, "there is no graph 99"},
		"an infinite number": {must.Err(pybind.ImportConfig(`{"per_process_gpu_memory_fraction": "much"}`)),
			status.Internal, "decoding a float"},
		"a program under way": {must.Err(pybind.ImportConfig(`{}`)),
			status.State, "must be called at program startup"},
		"a placeholder's size": {must.Err(pybind.AddPlaceholder(graph, "p", "float32", "x", false, "", "")),
			status.Value, "Dimension x"},
		"a placeholder's type": {must.Err(pybind.AddPlaceholder(graph, "p", "complex64", "", true, "", "")),
			status.InvalidType, "complex64"},
		"a placeholder's device": {must.Err(pybind.AddPlaceholder(graph, "p", "float32", "", true, "", "x:y")),
			status.InvalidArgument, "x:y"},
		"a scope": {must.Err(pybind.RequestDevice("", "bogus")), status.InvalidArgument, "bogus"},
	} {
		t.Run(name, func(t *testing.T) { require.Contains(t, requireKind(t, row.kind, row.err), row.text) })
	}
	require.Len(t, liveTensors(t).Tensors, 1)
}
func TestRequestedDevices(t *testing.T) {
	for _, row := range []struct{ own, scope, want string }{
		{"", "", ""},
		{"", "/gpu:1", "/device:GPU:1"},
		{"/gpu:1", "/job:a", "/job:a/device:GPU:1"},
		{"/cpu:0", "/job:a/gpu:3", "/job:a/device:CPU:0"},
	} {
		require.Equal(t, row.want, must.OK(pybind.RequestDevice(row.own, row.scope))(t), row)
	}
}

// Operations, sessions and resets from many threads: each works or returns the reason, and nothing is left.
func TestOperationsBesideResets(t *testing.T) {
	onMachine(t, "2xT4")
	graph, _ := graphOf(t, 1, 2)
	numbers := []float32{1, 2}
	address, bytes := host(numbers)
	var wait sync.WaitGroup
	work := func(step func() error) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 200 {
				if err := step(); err != nil {
					kind, text, _ := unmark(err)
					if kind != "FAILED_PRECONDITION" && kind != "INVALID_ARGUMENT" {
						t.Errorf("%s: %s", kind, text)
					}
				}
			}
		}()
	}
	for range 2 {
		work(func() error {
			if _, err := pybind.Enumerate("{}"); err != nil {
				return err
			}
			if _, err := pybind.Initialize("{}", ""); err != nil {
				return err
			}
			receipt, err := pybind.MakeTensor(address, bytes, "float32", "2", "", full("GPU:1"))
			if err != nil {
				return err
			}
			return must.Err(pybind.ReleaseTensor(receipt >> 1))
		})
		work(func() error {
			receipt, err := pybind.OpenSession(graph, "{}", "{}", "")
			if err != nil {
				return err
			}
			into := make([]float32, 2)
			to, size := host(into)
			_, err = pybind.RunSession(receipt>>1, fmt.Sprintf(`{"fetches": [[1, %d, %d]]}`, to, size))
			if _, closeErr := pybind.CloseSession(receipt >> 1); closeErr != nil {
				t.Error(closeErr)
			}
			return err
		})
		work(func() error { _, err := pybind.Reset(); return err })
	}
	wait.Wait()
	initialize(t)
	require.Equal(t, live{Tensors: []string{}}, liveTensors(t))
}
