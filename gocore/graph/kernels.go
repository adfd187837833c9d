package graph

import (
	"slices"
	"strings"

	"gpuconf/gocore/gpu"
)

// Op is the name of an operation.
type Op string

// The operations. Add broadcasts as NumPy does; AddN takes any number of tensors of one shape.
const (
	Const    Op = "Const"
	MatMul   Op = "MatMul"
	AddN     Op = "AddN"
	Add      Op = "Add"
	Identity Op = "Identity"
)

// v2Name is what TensorFlow 2 calls an operation in what it says about eager calls. Graphs keep the names of TensorFlow 1.
func (o Op) v2Name() Op {
	switch o {
	case Add:
		return "AddV2"
	case Const:
		return "_EagerConst"
	}
	return o
}

// kernel is an operation for some element types on one type of device.
type kernel struct {
	deviceType string
	types      []gpu.DType
	hostMemory bool // operands and result are in host memory
}

var (
	floats = []gpu.DType{gpu.Float32, gpu.Float64}
	ints   = []gpu.DType{gpu.Int32}
	all    = []gpu.DType{gpu.Float32, gpu.Float64, gpu.Int32}
)

// kernels lists what there is, the most preferred device type first. TensorFlow's are alike: a GPU multiplies no int32, and
// what else it does with them it does in host memory.
var kernels = map[Op][]kernel{
	Const:    {{"GPU", floats, false}, {"GPU", ints, true}, {"CPU", all, false}},
	MatMul:   {{"GPU", floats, false}, {"CPU", all, false}},
	AddN:     {{"GPU", floats, false}, {"GPU", ints, true}, {"CPU", all, false}},
	Add:      {{"GPU", floats, false}, {"GPU", ints, true}, {"CPU", all, false}},
	Identity: {{"GPU", floats, false}, {"GPU", ints, true}, {"CPU", all, false}},
}

// kernelFor finds the kernel for an operation on a device type, nil where there is none.
func kernelFor(op Op, dtype gpu.DType, deviceType string) *kernel {
	list := kernels[op]
	for i := range list {
		if list[i].deviceType == deviceType && slices.Contains(list[i].types, dtype) {
			return &list[i]
		}
	}
	return nil
}

// typesByPriority are the device types from the one that placement likes most.
var typesByPriority = []string{"GPU", "CPU"}

// priority is a type's place in placement's liking; types that it doesn't know come last.
func priority(deviceType string) int {
	if i := slices.Index(typesByPriority, deviceType); i >= 0 {
		return i
	}
	return len(typesByPriority)
}

// typeSet is a set of the types in typesByPriority, a bit each.
type typeSet uint8

// setOf is the set of one type, empty for a type that placement doesn't know.
func setOf(deviceType string) typeSet {
	if i := slices.Index(typesByPriority, deviceType); i >= 0 {
		return 1 << i
	}
	return 0
}

// supportedTypes are the device types that have a kernel.
func supportedTypes(op Op, dtype gpu.DType) (set typeSet) {
	for _, k := range kernels[op] {
		if slices.Contains(k.types, dtype) {
			set |= setOf(k.deviceType)
		}
	}
	return set
}

// describeKernels is TensorFlow's list of what is registered for an operation, a line each.
func describeKernels(op Op) string {
	var b strings.Builder
	for _, k := range kernels[op] {
		for _, dtype := range k.types {
			b.WriteString("  device='" + k.deviceType + "'; T in [" + typeConstant(dtype) + "]\n")
		}
	}
	if b.Len() == 0 {
		return "  <no registered kernels>\n"
	}
	return b.String()
}
