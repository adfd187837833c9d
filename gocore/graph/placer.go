package graph

import "gpuconf/gocore/devname"

// placer puts the nodes of a graph that are new since the last time on devices. What was placed stays where it is.
//
// It goes through the nodes three times, always in the order that loading gives. First each node's group is held to the devices
// there are; the first node that can't be satisfied is the one that the error names. Then everything with inputs is placed. Last come
// the constants: one whose readers are all on one device goes there if it may, so that it needn't be copied.
type placer struct {
	devices *Devices
	soft    bool
	first   int     // the number of the first new node
	nodes   []*Node // the new ones
	placed  []int32 // the devices of all nodes, by number; -1 while a node has none
	readers adjacency
	root    []int32 // by new node: the first of those that share a device with it, often itself
	groups  []group // by root
	found   map[wish]int32
}

// wish is all that the choice of a device depends on: the same for most groups.
type wish struct {
	request *devname.Name
	types   typeSet
	soft    bool
}

// group is what new nodes that share a device ask for together. Most groups are one node, so a group is small and its request
// that of the node itself.
type group struct {
	request *devname.Name // merged; never written through
	soft    bool          // the request can't be had, what soft placement leaves of it can
	types   typeSet       // device types that have a kernel for every member
	members int32
	device  int32 // where the members are, -1 while none is placed
}

// pattern is what the devices for a group have to match.
func (g *group) pattern() devname.Name {
	if g.soft {
		return soften(*g.request)
	}
	return *g.request
}

// place gives the devices of all nodes, placed being those of the first ones, and the numbers of the new nodes in the order in which
// they are told about. placed is added to, not changed.
func place(devices *Devices, soft bool, nodes []*Node, placed []int32) (all, order []int32, err error) {
	p := &placer{devices: devices, soft: soft, first: len(placed), nodes: nodes[len(placed):], placed: placed, found: map[wish]int32{}}
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
	var constants []*Node
	for _, id := range order {
		if n := nodes[id]; n.op == Const && p.groupOf(n).members == 1 {
			constants = append(constants, n)
		} else {
			p.put(n, p.preferred(n))
		}
	}
	for _, n := range constants {
		p.put(n, p.nearReaders(n))
	}
	return p.placed, order, nil
}

// find is the device that placement takes for a group, or -1.
func (p *placer) find(g *group) int32 {
	w := wish{g.request, g.types, g.soft}
	at, known := p.found[w]
	if !known {
		at = int32(p.devices.find(g.pattern(), g.types))
		p.found[w] = at
	}
	return at
}

// satisfy decides what of a group's request can be had.
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

// preferred is the device for a node: its group's if that has one, its input's for some Identity, else the first that will do.
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

// goesWithInput reports whether a node is an Identity that asks for no device between two nodes that ask for the same; nobody asks
// for none. A node that reads it twice counts as two, and one that waits for it as a reader.
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

// nearReaders is the device for a constant: that of all its readers if it may go there. A constant that waits for it may not be placed yet.
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
