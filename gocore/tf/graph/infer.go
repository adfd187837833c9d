// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// inferNode determines the type and shape of a node's tensor. If its inputs are incompatible, it returns an error with
// the text of TensorFlow's graphs.
func inferNode(n *Node) error {
	if err := checkArity(n.op, len(n.inputs)); err != nil {
		return err
	}
	switch n.op {
	case Const:
		return inferConst(n)
	case Placeholder:
		return inferPlaceholder(n)
	case NoOp:
		return nil
	}
	if err := checkNodeTypes(n); err != nil {
		return err
	}
	shapes := make([]Partial, len(n.inputs))
	for i, input := range n.inputs {
		shapes[i] = input.shape
		if _, known := input.shape.Full(); !known {
			n.deferred = true
		}
	}
	n.dtype = n.inputs[0].dtype
	shape, reason := inferShape(n.op, n.attrs, shapes)
	if reason != "" {
		texts := make([]string, len(shapes))
		for i, s := range shapes {
			texts[i] = s.String()
		}
		return status.Errorf(status.InvalidArgument, "%s for '%s' (op: '%s') with input shapes: %s.", reason, n.name,
			n.op, strings.Join(texts, ", "))
	}
	n.shape = shape
	return shape.check(n.dtype)
}

// inferConst checks the value and copies its shape and bytes, because a node is immutable.
func inferConst(n *Node) error {
	if err := n.attrs.value.check(); err != nil {
		return err
	}
	n.attrs.value = n.attrs.value.clone()
	n.dtype, n.shape = n.attrs.value.DType, Partial{Sizes: n.attrs.value.Shape}
	return nil
}

// inferPlaceholder checks the requested type and shape.
func inferPlaceholder(n *Node) error {
	if n.dtype.Bytes() == 0 {
		return status.Errorf(status.InvalidType, "%d is not an element type: use float32, float64, int32 or bool",
			int(n.dtype))
	}
	return n.shape.check(n.dtype)
}

// checkArity checks the number of an operation's inputs.
func checkArity(op Op, n int) error {
	want := map[Op]int{Const: 0, Placeholder: 0, NoOp: 0, MatMul: 2, Add: 2, Identity: 1}
	if op == AddN {
		if n == 0 {
			return status.Errorf(status.InvalidArgument, "inputs must be a list of at least one Tensor with the "+
				"same dtype and shape")
		}
		return nil
	}
	if n != want[op] {
		return status.Errorf(status.InvalidArgument, "%s takes %d inputs, not %d", op, want[op], n)
	}
	return nil
}

// checkNodeTypes rejects inputs whose types differ.
func checkNodeTypes(n *Node) error {
	names := []string{"a", "b"}
	switch n.op {
	case Add:
		names = []string{"x", "y"}
	case AddN:
		names = []string{"inputs"}
	}
	for i, input := range n.inputs {
		if !input.HasTensor() {
			return status.Errorf(status.InvalidArgument, "%s has no tensor that %s can read", input.name, n.op)
		}
		if input.dtype == n.inputs[0].dtype {
			continue
		}
		if n.op == AddN {
			types := make([]string, len(n.inputs))
			for j, each := range n.inputs {
				types[j] = each.dtype.String()
			}
			return status.Errorf(status.InvalidType,
				"Tensors in list passed to 'inputs' of 'AddN' Op have types [%s] that don't all match.",
				strings.Join(types, ", "))
		}
		return status.Errorf(status.InvalidType, "Input '%s' of '%s' Op has type %s that does not match type %s of "+
			"argument '%s'.",
			names[i], n.op, input.dtype, n.inputs[0].dtype, names[0])
	}
	if first := n.inputs[0].dtype; supportedTypes(n.op, first) == 0 {
		return status.Errorf(status.InvalidType, "Value passed to parameter '%s' has DataType %s not in list of "+
			"allowed values: float32, float64, int32", names[0], first)
	}
	return nil
}

// inferShape returns the shape of a result, or the reason why there is none.
func inferShape(op Op, a attrs, in []Partial) (out Partial, reason string) {
	switch op {
	case MatMul:
		return inferMatMul(a, in[0], in[1])
	case AddN:
		return inferAddN(in)
	case Add:
		if in[0].Unranked || in[1].Unranked {
			return Partial{Unranked: true}, ""
		}
		out.Sizes, reason = broadcastShape(in[0].Sizes, in[1].Sizes)
		return out, reason
	}
	return in[0], ""
}

// resultShape returns the shape of a result whose operands' shapes are known and have passed eagerReason.
func resultShape(op Op, a attrs, in []Shape) Shape {
	if op == MatMul { // without the memory for partial shapes
		rows, _ := matrixSize(in[0], a.transposeA)
		_, columns := matrixSize(in[1], a.transposeB)
		return Shape{rows, columns}
	}
	known := make([]Partial, len(in))
	for i, s := range in {
		known[i].Sizes = s
	}
	out, _ := inferShape(op, a, known)
	return out.Sizes
}

func inferMatMul(attr attrs, a, b Partial) (Partial, string) {
	for _, p := range []*Partial{&a, &b} {
		if p.Unranked {
			*p = Partial{Sizes: Shape{Unknown, Unknown}}
		}
		if len(p.Sizes) != 2 {
			return Partial{}, fmt.Sprintf("Shape must be rank 2 but is rank %d", len(p.Sizes))
		}
	}
	rows, inner := matrixSize(a.Sizes, attr.transposeA)
	innerB, columns := matrixSize(b.Sizes, attr.transposeB)
	if differ(inner, innerB) {
		return Partial{}, fmt.Sprintf("Dimensions must be equal, but are %d and %d", inner, innerB)
	}
	return Partial{Sizes: Shape{rows, columns}}, ""
}

// differ reports whether two sizes cannot be the same.
func differ(a, b int64) bool { return a != b && a != Unknown && b != Unknown }

// matrixSize returns the size of a matrix after an optional transposition.
func matrixSize(s Shape, transposed bool) (rows, columns int64) {
	if transposed {
		return s[1], s[0]
	}
	return s[0], s[1]
}

// inferAddN merges the shapes from the last to the first, like TensorFlow: the error depends on that order.
func inferAddN(in []Partial) (merged Partial, reason string) {
	merged = in[len(in)-1]
	for i := len(in) - 2; i >= 0; i-- {
		if merged, reason = mergeShapes(in[i], merged); reason != "" {
			return Partial{}, fmt.Sprintf("%s\n\tFrom merging shape %d with other shapes.", reason, i)
		}
	}
	return merged, ""
}

// mergeShapes combines what two shapes say of the same tensor.
func mergeShapes(a, b Partial) (merged Partial, reason string) {
	switch {
	case a.Unranked:
		return b, ""
	case b.Unranked:
		return a, ""
	case len(a.Sizes) != len(b.Sizes):
		return merged, fmt.Sprintf("Shapes must be equal rank, but are %d and %d", len(a.Sizes), len(b.Sizes))
	}
	merged.Sizes = slices.Clone(a.Sizes)
	for i, size := range b.Sizes {
		if differ(a.Sizes[i], size) {
			return Partial{}, fmt.Sprintf("Dimension %d in both shapes must be equal, but are %d and %d. Shapes are "+
				"%s and %s.", i, a.Sizes[i], size, a, b)
		}
		if size != Unknown {
			merged.Sizes[i] = size
		}
	}
	return merged, ""
}

// eagerReason returns why tensors are incompatible, "" if they are not. The texts are those of TensorFlow's kernels,
// which differ from its graphs'.
func eagerReason(op Op, a attrs, in []Shape) string {
	switch op {
	case MatMul:
		return eagerMatMulReason(a, in[0], in[1])
	case AddN:
		for i, s := range in {
			if !s.Equal(in[0]) {
				return fmt.Sprintf("Inputs to operation %s of type %s must have the same size and shape.  Input 0: "+
					"%s != input %d: %s", op, op, in[0], i, s)
			}
		}
	case Add:
		if _, reason := broadcastShape(in[0], in[1]); reason != "" {
			return fmt.Sprintf("Incompatible shapes: %s vs. %s", in[0], in[1])
		}
	}
	return ""
}

func eagerMatMulReason(attr attrs, a, b Shape) string {
	for i, s := range [...]Shape{a, b} {
		if len(s) != 2 {
			return fmt.Sprintf("In[%d] is not a matrix. Instead it has shape %s", i, s)
		}
	}
	_, inner := matrixSize(a, attr.transposeA)
	innerB, _ := matrixSize(b, attr.transposeB)
	if inner != innerB {
		return fmt.Sprintf("Matrix size-incompatible: In[0]: %s, In[1]: %s", a, b)
	}
	return ""
}

// checkEagerTypes rejects inputs whose types differ.
func checkEagerTypes(op Op, types []gpu.DType) error {
	for i, d := range types {
		if d != types[0] {
			return status.Errorf(status.InvalidArgument, "cannot compute %s as input #%d(zero-based) was expected "+
				"to be a %s tensor but is a %s tensor",
				op.v2Name(), i, typeName(types[0]), typeName(d))
		}
	}
	if supportedTypes(op, types[0]) == 0 {
		return status.Errorf(status.InvalidArgument, "Value for attr 'T' of %s is not in the list of allowed values: "+
			"float, double, int32", typeName(types[0]))
	}
	return nil
}
