// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/tf/graph"
	"gpuconf/pybind/process"
)

// NewGraph creates an empty graph. It survives a reset.
func NewGraph() (id int64, err error) {
	defer process.Gate(&err)
	return process.Shared().NewGraph()
}

// DropGraph releases a graph.
func DropGraph(id int64) (done bool, err error) {
	defer process.Gate(&err)
	return true, process.Shared().DropGraph(id)
}

// AddConstant adds a constant to a graph. Its value is copied from host memory. device is a result of RequestDevice.
// after lists the nodes that run before it, "0 1". The result describes the node: {"id": n, "name": ..., "dtype": name,
// "shape": [...]}. The shape has -1 for a size that is not known before a run, and is null if not even their number is.
// A node without a tensor has neither type nor shape.
func AddConstant(
	graphID int64, name string, host int64, nbytes int64, dtype string, shape string, after string, device string,
) (node string, err error) {
	defer process.Gate(&err)
	g, err := process.Shared().Graph(graphID)
	if err != nil {
		return "", err
	}
	value, err := hostValue(host, nbytes, dtype, shape)
	if err != nil {
		return "", err
	}
	before, err := nodes(g, after)
	if err != nil {
		return "", err
	}
	return addNode(g, graph.NodeSpec{Op: graph.Const, Name: name, Value: value, Controls: before, Device: device})
}

// AddPlaceholder adds a placeholder, whose value is fed. shape is like "2,3", with -1 for an unknown size. If unranked
// is set, not even the number of sizes is known. Its other arguments and its result are those of AddConstant.
func AddPlaceholder(
	graphID int64, name string, dtype string, shape string, unranked bool, after string, device string,
) (node string, err error) {
	defer process.Gate(&err)
	g, err := process.Shared().Graph(graphID)
	if err != nil {
		return "", err
	}
	spec := graph.NodeSpec{Op: graph.Placeholder, Name: name, Device: device, Shape: graph.Partial{Unranked: unranked}}
	if spec.DType, err = parseDType(dtype); err != nil {
		return "", err
	}
	if spec.Shape.Sizes, err = parseShape(shape); err != nil {
		return "", err
	}
	if spec.Controls, err = nodes(g, after); err != nil {
		return "", err
	}
	return addNode(g, spec)
}

// AddNode adds an operation on nodes of a graph, "0 1". Its other arguments and its result are those of AddConstant.
func AddNode(graphID int64, op string, name string, inputs string, after string, flags int64, device string) (
	node string, err error) {
	defer process.Gate(&err)
	g, err := process.Shared().Graph(graphID)
	if err != nil {
		return "", err
	}
	read, err := nodes(g, inputs)
	if err != nil {
		return "", err
	}
	before, err := nodes(g, after)
	if err != nil {
		return "", err
	}
	return addNode(g, graph.NodeSpec{
		Op: graph.Op(op), Name: name, Inputs: read, Controls: before, Device: device,
		TransposeA: flags&transposeA != 0, TransposeB: flags&transposeB != 0,
	})
}

// nodes reads "0 1" as nodes of a graph.
func nodes(g *graph.Graph, text string) ([]*graph.Node, error) {
	ids, err := numbers(text)
	if err != nil {
		return nil, err
	}
	return process.NodesOf(g, ids)
}

func addNode(g *graph.Graph, spec graph.NodeSpec) (string, error) {
	n, err := g.Add(spec)
	if err != nil {
		return "", err
	}
	described := map[string]any{"id": n.ID(), "name": n.Name()}
	if n.HasTensor() {
		described["dtype"], described["shape"] = n.DType().String(), append(graph.Shape{}, n.Shape().Sizes...)
		if n.Shape().Unranked {
			described["shape"] = nil
		}
	}
	return encode(described)
}

// RequestDevice returns the device that a node requests inside scopes, the outermost first: [null, "/gpu:1",
// ["/cpu:0"], ...]. null is None; a list of one element is the result of a device function. own is the device that the
// node itself requests.
func RequestDevice(own string, scopes string) (device string, err error) {
	defer process.Gate(&err)
	var sent []any
	if err := decode(scopes, &sent); err != nil {
		return "", err
	}
	list := make([]graph.Scope, len(sent))
	for i, each := range sent {
		switch scope := each.(type) {
		case string:
			list[i] = graph.Scope{Device: scope}
		case []any:
			answer, _ := scope[0].(string)
			list[i] = graph.Scope{Device: answer, Overwrite: true}
		default:
			list[i] = graph.Scope{None: true}
		}
	}
	return graph.Request(own, list)
}
