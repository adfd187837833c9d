// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
	"gpuconf/pybind/process"
)

// The bits of the flags of an operation.
const (
	transposeA = 1 << iota
	transposeB
)

// MakeTensor copies host memory, which the caller keeps alive, into a new tensor. device is the current scope, and
// shape is like "2,3". It returns the tensor's number times 2, plus 1 if log lines or notices are pending.
func (calls) MakeTensor(w *process.Work, host int64, nbytes int64, dtype string, shape string, name string,
	device string) (receipt int64, err error) {
	value, err := hostValue(host, nbytes, dtype, shape)
	if err != nil {
		return 0, err
	}
	return execute(w, graph.Call{Op: graph.Const, Name: name, Value: value, Device: device}, nil)
}

// Execute runs one operation on tensors, "7 12"; device is the current scope. Its result is like MakeTensor's.
func (calls) Execute(w *process.Work, op string, inputs string, flags int64, name string, device string) (
	receipt int64, err error) {
	ids, err := numbers(inputs)
	if err != nil {
		return 0, err
	}
	return execute(w, callOf(op, flags, name, device), ids)
}

// ExecuteBinary is Execute for two tensors, without the cost of their numbers as text.
func (calls) ExecuteBinary(w *process.Work, op string, first int64, second int64, flags int64, name string,
	device string) (receipt int64, err error) {
	return execute(w, callOf(op, flags, name, device), []int64{first, second})
}

func callOf(op string, flags int64, name, device string) graph.Call {
	return graph.Call{
		Op: graph.Op(op), Name: name, Device: device, TransposeA: flags&transposeA != 0,
		TransposeB: flags&transposeB != 0,
	}
}

func execute(w *process.Work, call graph.Call, inputs []int64) (receipt int64, err error) {
	id, logged, err := w.Execute(call, inputs)
	return receiptOf(id, logged), err
}

// receiptOf is a number and a flag as one number.
func receiptOf(id int64, flag bool) int64 {
	if flag {
		return id<<1 | 1
	}
	return id << 1
}

// numbers parses "7 12".
func numbers(text string) ([]int64, error) {
	list := make([]int64, 0, 2)
	for more := text != ""; more; {
		var field string
		field, text, more = strings.Cut(text, " ")
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, status.Errorf(status.Internal, "decoding a list of numbers: %w", err)
		}
		list = append(list, n)
	}
	return list, nil
}

// hostValue returns the contents of host memory as a value, which is valid for the duration of the call.
func hostValue(host, nbytes int64, dtype, shape string) (v graph.Value, err error) {
	if v.DType, err = parseDType(dtype); err != nil {
		return v, err
	}
	if v.Shape, err = parseShape(shape); err != nil {
		return v, err
	}
	v.Bytes, err = hostMemory(host, nbytes)
	return v, err
}

func parseDType(name string) (gpu.DType, error) {
	for _, d := range gpu.DTypes {
		if d.String() == name {
			return d, nil
		}
	}
	return 0, status.Errorf(status.InvalidType, "unsupported dtype %s: use float32, float64, int32 or bool", name)
}

// parseShape parses "2,3"; "" is the shape of a scalar.
func parseShape(text string) (graph.Shape, error) {
	if text == "" {
		return graph.Shape{}, nil
	}
	fields := strings.Split(text, ",")
	shape := make(graph.Shape, len(fields))
	for i, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, status.Errorf(status.Value, "Dimension %s does not fit in 63 bits", field)
		}
		shape[i] = n
	}
	return shape, nil
}

// tensor is a tensor that Python holds.
type tensor struct {
	*graph.Tensor
	work *process.Work
}

func findTensor(id int64) (t tensor, err error) {
	if t.work, err = process.Shared().Work(); err == nil {
		t.Tensor, err = t.work.Tensor(id)
	}
	return t, err
}

// TensorInfo describes a tensor: {"shape": [...], "dtype": name, "device": ..., "backing_device": ..., "address": ...,
// "host_visible": bool}.
func (calls) TensorInfo(t tensor) (map[string]any, error) {
	return map[string]any{"shape": t.Shape(), "dtype": t.DType().String(), "device": t.Device(),
		"backing_device": t.BackingDevice().String(), "address": t.Buffer().Addr,
		"host_visible": t.work.HostVisible(t.Tensor)}, nil
}

// ReadTensor copies a tensor into host memory, which the caller keeps alive.
func (calls) ReadTensor(t tensor, host int64, nbytes int64) error {
	into, err := hostMemory(host, nbytes)
	if err != nil {
		return err
	}
	return t.Read(into)
}

// ReleaseTensor releases a tensor.
func (calls) ReleaseTensor(w *process.Work, id int64) error { return w.Release(id) }

// LiveTensors describes the live tensors and the host memory of operations: {"tensors": [line, ...], "host_blocks": n,
// "host_bytes": n}.
func (calls) LiveTensors(w *process.Work) (map[string]any, error) {
	blocks, bytes := w.HostMemory()
	return map[string]any{"tensors": w.LiveTensors(), "host_blocks": blocks, "host_bytes": bytes}, nil
}

// DrainPlacementLog returns and clears the placement log of eager operations.
func (calls) DrainPlacementLog(w *process.Work) (lines []string, err error) {
	return w.DrainLines(), nil
}
