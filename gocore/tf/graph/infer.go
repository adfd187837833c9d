// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"
	"strconv"
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

// broadcastShape applies NumPy's rule, which is TensorFlow's: shapes are aligned at their last dimensions, and a
// dimension that is missing or has size 1 is repeated. A size may be Unknown; against a size above 1 it must be that
// size, or 1.
func broadcastShape(a, b Shape) (Shape, string) {
	out := make(Shape, max(len(a), len(b)))
	for i := range out {
		x, y := aligned(a, len(out), i), aligned(b, len(out), i)
		switch {
		case x == y || y == 1 || y == Unknown && x > 1:
			out[i] = x
		case x == 1 || x == Unknown && y > 1:
			out[i] = y
		case x == Unknown || y == Unknown: // the other one is 0
			out[i] = Unknown
		default:
			return nil, fmt.Sprintf("Dimensions must be equal, but are %d and %d", x, y)
		}
	}
	return out, ""
}

// aligned returns dimension i of a shape that is padded with leading ones to rank dimensions.
func aligned(s Shape, rank, i int) int64 {
	if i -= rank - len(s); i < 0 {
		return 1
	}
	return s[i]
}

// axis is one loop of a broadcast sum: its length, and the strides of the three tensors, in elements.
type axis struct {
	size, out, a, b uint64
}

// axes converts a broadcast to as few loops as possible, outermost first. The result is not empty.
func axes(out, a, b Shape) []axis {
	var loops []axis
	stepOut, stepA, stepB := uint64(1), uint64(1), uint64(1)
	for i := len(out) - 1; i >= 0; i-- {
		x, y := uint64(aligned(a, len(out), i)), uint64(aligned(b, len(out), i))
		loop := axis{size: uint64(out[i]), out: stepOut}
		if x > 1 {
			loop.a = stepA
		}
		if y > 1 {
			loop.b = stepB
		}
		stepOut, stepA, stepB = stepOut*loop.size, stepA*x, stepB*y
		loops = appendLoop(loops, loop)
	}
	if len(loops) == 0 {
		loops = append(loops, axis{size: 1, out: 1})
	}
	slices.Reverse(loops)
	return loops
}

// appendLoop adds a loop outside the others, or extends the outermost loop if the new one continues it.
func appendLoop(loops []axis, loop axis) []axis {
	if loop.size == 1 {
		return loops
	}
	if len(loops) > 0 {
		last := &loops[len(loops)-1]
		if loop.out == last.out*last.size && loop.a == last.a*last.size && loop.b == last.b*last.size {
			last.size *= loop.size
			return loops
		}
	}
	return append(loops, loop)
}

// addBroadcast adds two tensors of different shapes: the longest loop is one vector call, inside the other loops.
func addBroadcast(compute gpu.Compute, dtype gpu.DType, out, a, b *Tensor) error {
	loops := axes(out.shape, a.shape, b.shape)
	longest := 0
	for i, loop := range loops {
		if loop.size > loops[longest].size {
			longest = i
		}
	}
	inner := loops[longest]
	loops = slices.Delete(loops, longest, longest+1)
	size := dtype.Bytes()
	at := make([]uint64, len(loops))
	for {
		var offset axis
		for i, loop := range loops {
			offset.out += at[i] * loop.out
			offset.a += at[i] * loop.a
			offset.b += at[i] * loop.b
		}
		err := compute.Add(gpu.Add{
			DType: dtype, Count: inner.size,
			Out: gpu.Vector{Addr: out.address() + offset.out*size, Step: inner.out},
			A:   gpu.Vector{Addr: a.address() + offset.a*size, Step: inner.a},
			B:   gpu.Vector{Addr: b.address() + offset.b*size, Step: inner.b},
		})
		if err != nil || !advance(at, loops) {
			return err
		}
	}
}

// advance increments the index at, the last loop fastest, and reports whether it is still in range.
func advance(at []uint64, loops []axis) bool {
	for i := len(at) - 1; i >= 0; i-- {
		if at[i]++; at[i] < loops[i].size {
			return true
		}
		at[i] = 0
	}
	return false
}

// Unknown is a size in a Partial that is not known before a run.
const Unknown = -1

// Partial is what is known of a tensor's shape before a run. A placeholder's shape may be partly unknown, and so may
// the shapes of the nodes that read it.
type Partial struct {
	Sizes    Shape // Unknown where a size is not known
	Unranked bool  // not even the number of dimensions is known; then Sizes is nil
}

// String formats the shape like TensorFlow's errors: "[2,?]", or "?" for an unknown number of dimensions.
func (p Partial) String() string {
	if p.Unranked {
		return "?"
	}
	return "[" + strings.Join(p.texts("?"), ",") + "]"
}

// texts formats the sizes.
func (p Partial) texts(unknown string) []string {
	texts := make([]string, len(p.Sizes))
	for i, size := range p.Sizes {
		texts[i] = unknown
		if size != Unknown {
			texts[i] = strconv.FormatInt(size, 10)
		}
	}
	return texts
}

// Full returns the shape; ok is false if any of it is unknown.
func (p Partial) Full() (s Shape, ok bool) {
	for _, size := range p.Sizes {
		if size == Unknown {
			return nil, false
		}
	}
	return p.Sizes, !p.Unranked
}

// matches reports whether a tensor of this shape may have the shape s.
func (p Partial) matches(s Shape) bool {
	if p.Unranked {
		return true
	}
	if len(p.Sizes) != len(s) {
		return false
	}
	for i, size := range p.Sizes {
		if size != Unknown && size != s[i] {
			return false
		}
	}
	return true
}

// check rejects an invalid shape. Of one that is not fully known, only what is known is checked.
func (p Partial) check(d gpu.DType) error {
	if s, full := p.Full(); full {
		return s.check(d)
	}
	if len(p.Sizes) > maxRank {
		return p.Sizes.check(d)
	}
	for _, size := range p.Sizes {
		if size < Unknown {
			return status.Errorf(status.Value, "Dimension %d must be >= 0", size)
		}
	}
	return nil
}
