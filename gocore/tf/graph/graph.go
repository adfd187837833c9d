// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"slices"
	"sync"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
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
		graph:     g,
		id:        len(g.nodes),
		op:        spec.Op,
		inputs:    slices.Clone(spec.Inputs),
		attrs:     attrs{spec.TransposeA, spec.TransposeB, spec.Value},
		dtype:     spec.DType,
		shape:     Partial{slices.Clone(spec.Shape.Sizes), spec.Shape.Unranked},
		controls:  slices.Clone(spec.Controls),
		colocated: spec.ColocateWith,
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
	others := slices.Concat(spec.Inputs, spec.Controls)
	if spec.ColocateWith != nil {
		others = append(others, spec.ColocateWith)
	}
	for _, node := range others {
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
