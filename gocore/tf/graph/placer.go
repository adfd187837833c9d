// SPDX-License-Identifier: Apache-2.0

package graph

import "gpuconf/gocore/machine/devname"

// placer places the nodes that were added to a graph since the last placement. Placed nodes are not moved.
//
// It makes three passes over the nodes, in loading order. First it checks each node's group against the available
// devices; the error names the first node that cannot be satisfied. Then it places the nodes with inputs. Constants and
// placeholders come last: if all readers of one are on one device, it is placed there if allowed, to avoid a copy.
type placer struct {
	devices *Devices
	soft    bool
	first   int     // the number of the first new node
	nodes   []*Node // the new nodes
	placed  []int32 // the devices of all nodes, by number; -1 while a node has none
	readers adjacency
	root    []int32 // by new node: the first node of its group, often itself
	groups  []group // by root
	found   map[wish]int32
}

// wish is everything that the choice of a device depends on. Most groups have the same.
type wish struct {
	request *devname.Name
	types   typeSet
	soft    bool
}

// group is the combined request of new nodes that share a device. Most groups have one node, so a group is small and
// shares its node's request.
type group struct {
	request *devname.Name // merged; never written through
	soft    bool          // the request can be satisfied only under soft placement
	types   typeSet       // device types that have a kernel for every member
	members int32
	device  int32 // the members' device, -1 while none is placed
}

// pattern returns the pattern that a group's device must match.
func (g *group) pattern() devname.Name {
	if g.soft {
		return soften(*g.request)
	}
	return *g.request
}

// place returns the devices of all nodes (invariants 3 and 4), and the numbers of the new nodes in the order in which
// they are logged. placed holds the devices of the first nodes; it is appended to, not changed.
func place(devices *Devices, soft bool, nodes []*Node, placed []int32) (all, order []int32, err error) {
	p := &placer{devices: devices, soft: soft, first: len(placed), nodes: nodes[len(placed):], placed: placed,
		found: map[wish]int32{}}
	for range p.nodes {
		p.placed = append(p.placed, -1)
	}
	p.readers = newReaders(p.nodes, p.first)
	order = loadingOrder(p.readers, p.first)
	if err := p.colocate(); err != nil {
		return nil, nil, err
	}
	for _, id := range order {
		if err := p.satisfy(nodes[id]); err != nil {
			return nil, nil, err
		}
	}
	var sources []*Node
	for _, id := range order {
		if n := nodes[id]; (n.op == Const || n.op == Placeholder) && p.groupOf(n).members == 1 {
			sources = append(sources, n)
		} else {
			p.put(n, p.preferred(n))
		}
	}
	for _, n := range sources {
		p.put(n, p.nearReaders(n))
	}
	return p.placed, order, nil
}

// find returns the device that placement chooses for a group, or -1.
func (p *placer) find(g *group) int32 {
	w := wish{g.request, g.types, g.soft}
	at, known := p.found[w]
	if !known {
		at = int32(p.devices.find(g.pattern(), g.types))
		p.found[w] = at
	}
	return at
}

// satisfy checks whether a group's request can be satisfied, if necessary under soft placement.
func (p *placer) satisfy(n *Node) error {
	g := p.groupOf(n)
	if g.device >= 0 || p.find(g) >= 0 {
		return nil
	}
	g.soft = p.soft
	if g.soft && p.find(g) >= 0 {
		return nil
	}
	return p.explain(n, g)
}

// preferred returns the device for a node: its group's if that has one, its input's for some Identity nodes, else the
// first suitable one.
func (p *placer) preferred(n *Node) int32 {
	g := p.groupOf(n)
	if g.device >= 0 {
		return g.device
	}
	if p.goesWithInput(n) {
		if at := p.placed[n.inputs[0].id]; at >= 0 && p.devices.allows(g.pattern(), g.types, int(at)) {
			return at
		}
	}
	return p.find(g)
}

// goesWithInput reports whether a node is an Identity without a requested device whose input and only reader request
// the same device, or without a reader, whose input requests none. A node that reads it twice counts as two readers,
// and one that waits for it as one.
func (p *placer) goesWithInput(n *Node) bool {
	readers := p.readers.of(n.id - p.first)
	if n.op != Identity || *n.request != (devname.Name{}) || len(readers) > 1 || len(n.controls) > 0 {
		return false
	}
	wanted := devname.Name{}
	if len(readers) == 1 {
		wanted = *p.nodes[int(readers[0])-p.first].request
	}
	return *n.inputs[0].request == wanted
}

// nearReaders returns the device for a constant or placeholder: that of all its readers, if allowed. A constant that
// waits for it may not be placed yet.
func (p *placer) nearReaders(n *Node) int32 {
	g := p.groupOf(n)
	readers := p.readers.of(n.id - p.first)
	if g.device >= 0 || len(readers) == 0 {
		return p.preferred(n)
	}
	at := p.placed[readers[0]]
	for _, reader := range readers {
		if p.placed[reader] != at {
			return p.preferred(n)
		}
	}
	if at < 0 || !p.devices.allows(g.pattern(), g.types, int(at)) {
		return p.preferred(n)
	}
	return at
}

func (p *placer) put(n *Node, device int32) {
	p.placed[n.id] = device
	p.groupOf(n).device = device
}

func (p *placer) groupOf(n *Node) *group { return &p.groups[p.root[n.id-p.first]] }
