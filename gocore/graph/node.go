package graph

import (
	"fmt"
	"strconv"
	"strings"

	"gpuconf/gocore/devname"
	"gpuconf/gocore/gpu"
)

// NodeSpec says what node to add to a graph.
type NodeSpec struct {
	Op     Op
	Name   string // as asked for; "" is the operation's name
	Inputs []*Node

	Controls []*Node // nodes that run before this one, though it reads nothing of theirs; no node is listed twice

	TransposeA, TransposeB bool  // of MatMul
	Value                  Value // of Const

	Device       string // what Request gives: the devices that will do, "" for any
	ColocateWith *Node  // a node of the same graph to share a device with, or nil
}

// Node is an operation in a graph and the tensor that it makes. It never changes.
type Node struct {
	graph  *Graph
	id     int
	name   string
	op     Op
	inputs []*Node
	attrs  attrs
	dtype  gpu.DType
	shape  Shape

	controls []*Node

	request   *devname.Name // shared by all nodes of the graph that ask for the same in the same words; never written through
	device    string        // request as it was given
	colocated *Node
}

// attrs is what an operation has beside its inputs.
type attrs struct {
	transposeA, transposeB bool
	value                  Value
}

// ID is the node's number in its graph, from 0.
func (n *Node) ID() int { return n.id }

// Name is the node's unique name.
func (n *Node) Name() string { return n.name }

// Op is the node's operation.
func (n *Node) Op() Op { return n.op }

// DType is the type of the tensor that the node makes.
func (n *Node) DType() gpu.DType { return n.dtype }

// Shape is the shape of the tensor that the node makes. The caller must not change it.
func (n *Node) Shape() Shape { return n.shape }

// Inputs are the nodes whose tensors this one reads. The caller must not change the list.
func (n *Node) Inputs() []*Node { return n.inputs }

// Controls are the nodes that run before this one without being read. The caller must not change the list.
func (n *Node) Controls() []*Node { return n.controls }

// Device is the device that was asked for, "" for none.
func (n *Node) Device() string { return n.device }

// attributes lists the node's attributes as TensorFlow writes them, by name.
func (n *Node) attributes() string {
	switch n.op {
	case Const:
		return "dtype=" + typeConstant(n.dtype) + ", value=" + n.attrs.value.summary()
	case MatMul:
		return fmt.Sprintf("T=%s, transpose_a=%t, transpose_b=%t", typeConstant(n.dtype), n.attrs.transposeA, n.attrs.transposeB)
	case AddN:
		return fmt.Sprintf("N=%d, T=%s", len(n.inputs), typeConstant(n.dtype))
	}
	return "T=" + typeConstant(n.dtype)
}

// summary is the node as TensorFlow's errors show it: `b = Const[dtype=..., _device="/gpu:2"]()`.
func (n *Node) summary(device string) string {
	attributes := n.attributes()
	if device != "" {
		attributes += fmt.Sprintf(", _device=%q", device)
	}
	inputs := make([]string, 0, len(n.inputs)+len(n.controls))
	for _, input := range n.inputs {
		inputs = append(inputs, input.name)
	}
	for _, control := range n.controls {
		inputs = append(inputs, "^"+control.name)
	}
	return fmt.Sprintf("%s = %s[%s](%s)", n.name, n.op, attributes, strings.Join(inputs, ", "))
}

// describe is the node's tensor as TensorFlow 1 prints it: `Tensor("a:0", shape=(2, 3), dtype=float32)`.
func (n *Node) describe() string {
	sizes := make([]string, len(n.shape))
	for i, size := range n.shape {
		sizes[i] = strconv.FormatInt(size, 10)
	}
	shape := strings.Join(sizes, ", ")
	if len(sizes) == 1 {
		shape += ","
	}
	return fmt.Sprintf("Tensor(\"%s:0\", shape=(%s), dtype=%s)", n.name, shape, n.dtype)
}
