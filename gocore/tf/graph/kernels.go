// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"slices"
	"strings"

	"gpuconf/gocore/machine/gpu"
)

// Op is the name of an operation.
type Op string

// The operations. Add broadcasts like NumPy; AddN takes any number of tensors of the same shape. Placeholder has no
// value but a fed one, and NoOp has no tensor.
const (
	Const       Op = "Const"
	MatMul      Op = "MatMul"
	AddN        Op = "AddN"
	Add         Op = "Add"
	Identity    Op = "Identity"
	Placeholder Op = "Placeholder"
	NoOp        Op = "NoOp"
)

// v2Name returns TensorFlow 2's name of an operation in messages about eager calls. Graphs use TensorFlow 1's names.
func (o Op) v2Name() Op {
	switch o {
	case Add:
		return "AddV2"
	case Const:
		return "_EagerConst"
	}
	return o
}

// kernel is an implementation of an operation for some element types on one device type.
type kernel struct {
	deviceType string
	types      []gpu.DType
	hostMemory bool // operands and result are in host memory
}

var (
	floats   = []gpu.DType{gpu.Float32, gpu.Float64}
	ints     = []gpu.DType{gpu.Int32}
	gpuTypes = []gpu.DType{gpu.Float32, gpu.Float64, gpu.Bool} // in a GPU's memory
	numbers  = []gpu.DType{gpu.Float32, gpu.Float64, gpu.Int32}
	all      = gpu.DTypes
	none     = []gpu.DType{0} // of an operation without a tensor
)

// kernels lists all kernels, the most preferred device type first. As in TensorFlow, a GPU has no int32 MatMul, and its
// other int32 kernels work in host memory.
var kernels = map[Op][]kernel{
	Const:    {{"GPU", gpuTypes, false}, {"GPU", ints, true}, {"CPU", all, false}},
	MatMul:   {{"GPU", floats, false}, {"CPU", numbers, false}},
	AddN:     {{"GPU", floats, false}, {"GPU", ints, true}, {"CPU", numbers, false}},
	Add:      {{"GPU", floats, false}, {"GPU", ints, true}, {"CPU", numbers, false}},
	Identity: {{"GPU", gpuTypes, false}, {"GPU", ints, true}, {"CPU", all, false}},

	Placeholder: {{"GPU", all, false}, {"CPU", all, false}},
	NoOp:        {{"GPU", none, false}, {"CPU", none, false}},
}

// kernelFor returns the kernel for an operation on a device type, or nil.
func kernelFor(op Op, dtype gpu.DType, deviceType string) *kernel {
	list := kernels[op]
	for i := range list {
		if list[i].deviceType == deviceType && slices.Contains(list[i].types, dtype) {
			return &list[i]
		}
	}
	return nil
}

// typesByPriority lists the device types, the most preferred first.
var typesByPriority = []string{"GPU", "CPU"}

// priority returns a type's index in typesByPriority; unknown types come last.
func priority(deviceType string) int {
	if i := slices.Index(typesByPriority, deviceType); i >= 0 {
		return i
	}
	return len(typesByPriority)
}

// typeSet is a bit set of the types in typesByPriority.
type typeSet uint8

// setOf returns the set of one type, empty for an unknown type.
func setOf(deviceType string) typeSet {
	if i := slices.Index(typesByPriority, deviceType); i >= 0 {
		return 1 << i
	}
	return 0
}

// supportedTypes returns the device types that have a kernel.
func supportedTypes(op Op, dtype gpu.DType) (set typeSet) {
	for _, k := range kernels[op] {
		if slices.Contains(k.types, dtype) {
			set |= setOf(k.deviceType)
		}
	}
	return set
}

// describeKernels returns TensorFlow's list of the kernels registered for an operation, one per line.
func describeKernels(op Op) string {
	var b strings.Builder
	for _, k := range kernels[op] {
		for _, dtype := range k.types {
			b.WriteString("  device='" + k.deviceType + "'")
			if dtype != 0 {
				b.WriteString("; T in [" + typeConstant(dtype) + "]")
			}
			b.WriteByte('\n')
		}
	}
	if b.Len() == 0 {
		return "  <no registered kernels>\n"
	}
	return b.String()
}

// operation is an operation that is ready to run: its device and its result's type and shape are known.
type operation struct {
	op     Op
	attrs  attrs
	dtype  gpu.DType
	shape  Shape
	device int
}

// compute runs an operation, whose operands are in the memory that it works in.
func (d *Devices) compute(o operation, in []*Tensor) (*Tensor, error) {
	memory := d.memoryFor(o.op, o.dtype, o.device)
	switch {
	case o.op == Const:
		return d.upload(o.attrs.value, o.device, memory)
	case o.op == Identity, o.op == AddN && len(in) == 1:
		return in[0].share(o.device), nil
	}
	out, err := d.newTensor(o.dtype, o.shape, o.device, memory)
	if err != nil {
		return nil, err
	}
	if out.buffer.bytes == 0 {
		return out, nil
	}
	if err := o.run(d.list[memory].Compute, out, in); err != nil {
		return nil, firstError(err, out.Release)
	}
	return out, nil
}

// run computes into out, which is not empty.
func (o operation) run(compute gpu.Compute, out *Tensor, in []*Tensor) error {
	switch o.op {
	case MatMul:
		rows, inner := matrixSize(in[0].shape, o.attrs.transposeA)
		return compute.Gemm(gpu.Gemm{
			DType: o.dtype, M: uint64(rows), N: uint64(o.shape[1]), K: uint64(inner),
			TransA: o.attrs.transposeA, TransB: o.attrs.transposeB,
			A: in[0].address(), B: in[1].address(), C: out.address(),
		})
	case Add:
		return addBroadcast(compute, o.dtype, out, in[0], in[1])
	}
	return addAll(compute, o, out, in)
}

// addAll adds two or more tensors of the same shape, from left to right.
func addAll(compute gpu.Compute, o operation, out *Tensor, in []*Tensor) error {
	sum := in[0]
	for _, next := range in[1:] {
		err := compute.Add(gpu.Add{
			DType: o.dtype, Count: o.shape.elements(),
			Out: gpu.Vector{Addr: out.address(), Step: 1},
			A:   gpu.Vector{Addr: sum.address(), Step: 1},
			B:   gpu.Vector{Addr: next.address(), Step: 1},
		})
		if err != nil {
			return err
		}
		sum = out
	}
	return nil
}
