// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
)

// Graph is an append-only list of nodes. The zero Graph is empty and ready to use. It is safe for concurrent use.
type Graph struct {
	mu    sync.RWMutex
	nodes []*Node // guarded by mu
	names names   // guarded by mu

	// requests holds the nodes' device requests, by text: few, so that they stay in the CPU cache while a large graph
	// is placed. Guarded by mu.
	requests map[string]*devname.Name
}

// Add adds a node. It returns InvalidArgument for incompatible shapes, an invalid name or an invalid device string,
// InvalidType for types that do not match, and NotFound for an unknown operation.
func (g *Graph) Add(spec NodeSpec) (*Node, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	node := &Node{
		graph:    g,
		id:       len(g.nodes),
		op:       spec.Op,
		inputs:   slices.Clone(spec.Inputs),
		attrs:    attrs{spec.TransposeA, spec.TransposeB, spec.Value},
		dtype:    spec.DType,
		shape:    Partial{slices.Clone(spec.Shape.Sizes), spec.Shape.Unranked},
		controls: slices.Clone(spec.Controls),
	}
	commit, err := g.fillLocked(node, spec)
	if err != nil {
		return nil, err
	}
	commit()
	g.nodes = append(g.nodes, node)
	return node, nil
}

// fillLocked sets the node's name and infers its type and shape. commit reserves the name.
func (g *Graph) fillLocked(node *Node, spec NodeSpec) (commit func(), err error) {
	if _, known := kernels[spec.Op]; !known {
		return nil, status.Errorf(status.NotFound, "Op type not registered '%s'", spec.Op)
	}
	if err := g.checkOwn(spec); err != nil {
		return nil, err
	}
	asked := spec.Name
	if asked == "" {
		asked = string(spec.Op)
	}
	if node.name, commit, err = g.names.unique(asked); err != nil {
		return nil, err
	}
	if node.request = g.requestLocked(spec.Device); node.request == nil {
		return nil, status.Errorf(status.InvalidArgument, "Malformed device specification '%s' in node: %s",
			spec.Device, node.name)
	}
	if err := inferNode(node); err != nil {
		return nil, err
	}
	return commit, nil
}

// requestLocked parses a request, or finds its parsed form in requests; nil if it cannot be read.
func (g *Graph) requestLocked(text string) *devname.Name {
	if known := g.requests[text]; known != nil {
		return known
	}
	name, readable := devname.ParseFullName(text)
	if !readable {
		return nil
	}
	if g.requests == nil {
		g.requests = map[string]*devname.Name{}
	}
	g.requests[text] = &name
	return &name
}

// checkOwn rejects nodes of other graphs.
func (g *Graph) checkOwn(spec NodeSpec) error {
	for _, node := range slices.Concat(spec.Inputs, spec.Controls) {
		if node == nil {
			return status.Errorf(status.InvalidArgument, "an input of %s is not a node", spec.Op)
		}
		if node.graph != g {
			return status.Errorf(status.InvalidArgument, "Tensor %s must be from the same graph as the %s that "+
				"reads it", node.describe(), spec.Op)
		}
	}
	return nil
}

// Node returns the node with a number.
func (g *Graph) Node(id int) (*Node, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if id < 0 || id >= len(g.nodes) {
		return nil, false
	}
	return g.nodes[id], true
}

// all returns the current nodes. The list is append-only, so the result stays valid.
func (g *Graph) all() []*Node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.nodes[:len(g.nodes):len(g.nodes)]
}

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

	Device string // the result of Request: the allowed devices, "" for any
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

	request *devname.Name // shared by all nodes of the graph with the same device string; never written through
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

// names makes the nodes' names unique, like TensorFlow: "Const", "Const_1", "Const_2". Names are not case-sensitive.
type names struct {
	taken map[string]bool // lower case
	next  map[string]int  // lower-case requested name -> the first number that may be free
}

// unique returns a unique name for a requested name; commit reserves it. A name that ends in a slash is used without
// the slash, and must already be unique.
func (n *names) unique(asked string) (name string, commit func(), err error) {
	exact, isExact := strings.CutSuffix(asked, "/")
	if isExact {
		asked = exact
	}
	if !validName(asked) {
		return "", nil, status.Errorf(status.InvalidArgument, "'%s' is not a valid node name", asked)
	}
	key := strings.ToLower(asked)
	if isExact && n.taken[key] {
		return "", nil, status.Errorf(status.InvalidArgument, "Duplicate node name in graph: '%s'", asked)
	}
	if !n.taken[key] {
		return asked, func() { n.take(key, key, 1) }, nil
	}
	number := n.next[key]
	for n.taken[key+"_"+strconv.Itoa(number)] {
		number++
	}
	suffix := "_" + strconv.Itoa(number)
	return asked + suffix, func() { n.take(key+suffix, key, number+1) }, nil
}

// take marks a name as used, and records that no number below next is free for the requested name.
func (n *names) take(key, asked string, next int) {
	if n.taken == nil {
		n.taken, n.next = map[string]bool{}, map[string]int{}
	}
	n.taken[key] = true
	n.next[key] = max(n.next[key], 1)
	n.next[asked] = max(n.next[asked], next)
}

// validName is TensorFlow's rule: ^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.':
		case i > 0 && strings.IndexByte(`_\/>-`, c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}
