package graph

import (
	"slices"
	"sync"

	"gpuconf/gocore/devname"
	"gpuconf/gocore/status"
)

// Graph is a list of nodes that only grows. The zero Graph is empty and ready to use, by any number of goroutines.
type Graph struct {
	mu    sync.RWMutex
	nodes []*Node // guarded by mu
	names names   // guarded by mu

	// requests is what nodes have asked for, by its text: few, so that placing a large graph finds them in the cache. Guarded by mu.
	requests map[string]request
}

// request is a text with what it says.
type request struct {
	text   string
	parsed *devname.Name
}

// Add adds a node. Shapes that don't fit, names that are none and devices that no one can read are InvalidArgument, types that don't
// match InvalidType, an unknown operation NotFound.
func (g *Graph) Add(spec NodeSpec) (*Node, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	node := &Node{
		graph:     g,
		id:        len(g.nodes),
		op:        spec.Op,
		inputs:    slices.Clone(spec.Inputs),
		attrs:     attrs{spec.TransposeA, spec.TransposeB, spec.Value},
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

// fillLocked names the node and infers what it makes. commit takes the name.
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
	r, readable := g.requestLocked(spec.Device)
	if !readable {
		return nil, status.Errorf(status.InvalidArgument, "Malformed device specification '%s' in node: %s", spec.Device, node.name)
	}
	node.device, node.request = r.text, r.parsed
	if err := inferNode(node); err != nil {
		return nil, err
	}
	return commit, nil
}

// requestLocked reads a request, or finds it among those that were read.
func (g *Graph) requestLocked(text string) (r request, readable bool) {
	if r, readable = g.requests[text]; readable {
		return r, true
	}
	name, readable := devname.ParseFullName(text)
	if !readable {
		return request{}, false
	}
	if g.requests == nil {
		g.requests = map[string]request{}
	}
	r = request{text, &name}
	g.requests[text] = r
	return r, true
}

// checkOwn finds nodes that are not of this graph.
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
			return status.Errorf(status.InvalidArgument, "Tensor %s must be from the same graph as the %s that reads it", node.describe(), spec.Op)
		}
	}
	return nil
}

// Node finds a node by its number.
func (g *Graph) Node(id int) (*Node, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if id < 0 || id >= len(g.nodes) {
		return nil, false
	}
	return g.nodes[id], true
}

// Len counts the nodes.
func (g *Graph) Len() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.nodes)
}

// all gives the nodes as of now. The list only grows, so what is in it stays.
func (g *Graph) all() []*Node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.nodes[:len(g.nodes):len(g.nodes)]
}
