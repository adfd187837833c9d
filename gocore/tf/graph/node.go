// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"strings"

	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
)

// NodeSpec describes a node to add to a graph.
type NodeSpec struct {
	Op     Op      // the operation
	Name   string  // the requested name; "" for the operation's name
	Inputs []*Node // in the order of its arguments

	Controls []*Node // nodes that run before this one without being read by it; no node is listed twice

	TransposeA, TransposeB bool      // of MatMul
	Value                  Value     // of Const
	DType                  gpu.DType // of Placeholder
	Shape                  Partial   // of Placeholder

	Device       string // the result of Request: the allowed devices, "" for any
	ColocateWith *Node  // a node of the same graph to share a device with, or nil
}

// Node is an operation in a graph and its result. It is immutable.
type Node struct {
	graph  *Graph
	id     int
	name   string
	op     Op
	inputs []*Node
	attrs  attrs
	dtype  gpu.DType // 0 if the node has no tensor
	shape  Partial

	deferred bool // some input's shape is not fully known, so each run checks the shapes and determines the result's

	controls []*Node

	request   *devname.Name // shared by all nodes of the graph with the same device string; never written through
	colocated *Node
}

// attrs are an operation's attributes.
type attrs struct {
	transposeA, transposeB bool
	value                  Value
}

// ID returns the node's number in its graph, from 0.
func (n *Node) ID() int { return n.id }

// Name returns the node's unique name.
func (n *Node) Name() string { return n.name }

// DType returns the type of the node's tensor. It is invalid for a node without a tensor.
func (n *Node) DType() gpu.DType { return n.dtype }

// HasTensor reports whether the node has a tensor, which NoOp does not.
func (n *Node) HasTensor() bool { return n.op != NoOp }

// Shape returns what is known of the shape of the node's tensor. The caller must not change it.
func (n *Node) Shape() Partial { return n.shape }

// attributes formats the node's attributes like TensorFlow, sorted by name.
func (n *Node) attributes() string {
	switch n.op {
	case NoOp:
		return ""
	case Placeholder:
		shape := n.shape.String()
		if n.shape.Unranked {
			shape = "<unknown>"
		}
		return "dtype=" + typeConstant(n.dtype) + ", shape=" + shape
	case Const:
		return "dtype=" + typeConstant(n.dtype) + ", value=" + n.attrs.value.summary()
	case MatMul:
		return fmt.Sprintf("T=%s, transpose_a=%t, transpose_b=%t", typeConstant(n.dtype), n.attrs.transposeA,
			n.attrs.transposeB)
	case AddN:
		return fmt.Sprintf("N=%d, T=%s", len(n.inputs), typeConstant(n.dtype))
	}
	return "T=" + typeConstant(n.dtype)
}

// summary formats the node as in TensorFlow's errors: `b = Const[dtype=..., _device="/gpu:2"]()`.
func (n *Node) summary(device string) string {
	attributes := n.attributes()
	if device != "" {
		if attributes != "" {
			attributes += ", "
		}
		attributes += fmt.Sprintf("_device=%q", device)
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

// describe formats the node's tensor as TensorFlow 1 prints it: `Tensor("a:0", shape=(2, 3), dtype=float32)`.
func (n *Node) describe() string {
	if n.shape.Unranked {
		return fmt.Sprintf("Tensor(\"%s:0\", dtype=%s)", n.name, n.dtype)
	}
	sizes := n.shape.texts("None")
	shape := strings.Join(sizes, ", ")
	if len(sizes) == 1 {
		shape += ","
	}
	return fmt.Sprintf("Tensor(\"%s:0\", shape=(%s), dtype=%s)", n.name, shape, n.dtype)
}
