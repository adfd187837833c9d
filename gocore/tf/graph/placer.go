// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
)

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

// colocate builds the groups of nodes that share a device. A node can only be tied to an earlier one, so one pass in
// the nodes' order finds the roots. Under soft placement an impossible tie is ignored.
func (p *placer) colocate() error {
	p.root = make([]int32, len(p.nodes))
	p.groups = make([]group, len(p.nodes))
	for i, n := range p.nodes {
		p.root[i] = int32(i)
		p.groups[i] = group{request: n.request, types: supportedTypes(n.op, n.dtype), members: 1, device: -1}
		if n.colocated == nil {
			continue
		}
		if err := p.tie(n, &p.groups[i]); err != nil && !p.soft {
			return status.Errorf(status.InvalidArgument, "Cannot assign a device for operation %s: Cannot colocate "+
				"nodes {{colocation_node %s}} and {{colocation_node %s}}: %w", n.name, n.name, n.colocated.name, err)
		}
	}
	return nil
}

// tie assigns a node, which is a group by itself, the device of a placed node, or adds it to the group of a new node.
func (p *placer) tie(n *Node, own *group) error {
	if n.colocated.id < p.first {
		at := p.placed[n.colocated.id]
		if !p.devices.allows(*own.request, own.types, int(at)) {
			return status.Errorf(status.InvalidArgument, "the latter is already on %s", p.devices.texts[at])
		}
		own.device = at
		return nil
	}
	root := p.root[n.colocated.id-p.first]
	g := &p.groups[root]
	merge := devname.MergeHard
	if p.soft {
		merge = devname.MergeSoft
	}
	request, err := merge(*g.request, *own.request)
	if err != nil {
		return err
	}
	g.request, g.types = &request, g.types&own.types
	g.members++
	p.root[n.id-p.first] = root
	return nil
}

// Policy determines what happens if an eager operation's input is not in the memory that the operation works in. The
// zero Policy copies silently.
type Policy int

// The policies of set_device_policy.
const (
	Silent Policy = iota
	SilentForInt32
	Warn
	Explicit
)

var policyNames = [...]string{"silent", "silent_for_int32", "warn", "explicit"}

// ParsePolicy parses a policy's name.
func ParsePolicy(name string) (Policy, error) {
	for i, known := range policyNames {
		if name == known {
			return Policy(i), nil
		}
	}
	return Silent, status.Errorf(status.InvalidArgument, "'%s' is not a device policy", name)
}

// verdict is a policy's decision about one copy.
type verdict int

const (
	allow verdict = iota
	warn
	refuse
)

func (p Policy) verdict(dtype gpu.DType) verdict {
	switch {
	case p == Explicit, p == SilentForInt32 && dtype != gpu.Int32:
		return refuse
	case p == Warn:
		return warn
	}
	return allow
}

// explain returns the error for a node whose group no device satisfies.
func (p *placer) explain(n *Node, g *group) error {
	alone := *g.request == *n.request
	if alone && !p.devices.anyMatches(*n.request) {
		return p.noDevice(n)
	}
	reason := fmt.Sprintf("Could not satisfy explicit device specification '%s' ", n.request)
	if alone {
		reason += fmt.Sprintf("because no supported kernel for %s devices is available.\n"+
			"Op: %s\nNode attrs: %s\nRegistered kernels:\n%s", n.request.Type, n.op, n.attributes(),
			describeKernels(n.op))
	} else {
		reason += fmt.Sprintf("because the node {{colocation_node %s}} was colocated with a group of nodes "+
			"that required incompatible device '%s'. All available devices [%s].", n.name, g.request,
			p.devices.allNames())
	}
	return status.Errorf(status.InvalidArgument, "Cannot assign a device for operation %s: %s\n\t [[{{node %s}}]]",
		n.name, strings.TrimRight(reason, "\n"), n.name)
}

// noDevice returns the error for a request that no device matches: TensorFlow 1's text, the available devices, and what
// to do.
func (p *placer) noDevice(n *Node) error {
	request := v1Name(*n.request)
	there := make([]string, len(p.devices.names))
	for i, name := range p.devices.names {
		there[i] = v1Name(name)
	}
	return status.Errorf(status.InvalidArgument, "Invalid argument: Cannot assign a device to node '%s': "+
		"Could not satisfy explicit device specification '%s'\n\t [[Node: %s]]\n"+
		"The available devices are %s. Use one of these, or set allow_soft_placement=True in the session's ConfigProto",
		n.name, request, n.summary(request), strings.Join(there, ", "))
}

// MappingLines returns the block "Device mapping:", with one line for each device that has a description.
func (d *Devices) MappingLines() []string {
	lines := []string{"Device mapping:"}
	for i, device := range d.list {
		if description := device.Description(); description != "" {
			lines = append(lines, fmt.Sprintf("%s -> %s", v1Name(d.names[i]), description))
		}
	}
	if len(lines) == 1 {
		return []string{"Device mapping: no known devices."}
	}
	return lines
}

// placementLine returns the log line of a node's placement: "MatMul: /job:localhost/replica:0/task:0/gpu:0".
func placementLine(n *Node, d *Devices, device int) string {
	return n.name + ": " + v1Name(d.names[device])
}

// ExecutingLine returns TensorFlow 2's log line of an eager operation's device.
func (d *Devices) ExecutingLine(op Op, t *Tensor) string {
	return fmt.Sprintf("Executing op %s in device %s", op.v2Name(), t.Device())
}

// v1Name formats a name as in TensorFlow 1: "/job:localhost/replica:0/task:0/gpu:0". Types other than CPU and GPU had
// no such form.
func v1Name(n devname.Name) string {
	if n.Type != "CPU" && n.Type != "GPU" {
		return n.String()
	}
	id := "*"
	if n.HasID {
		id = strconv.Itoa(int(n.ID))
	}
	return soften(n).String() + "/" + strings.ToLower(n.Type) + ":" + id
}

// DescribeGPU describes a GPU for the device mapping: "device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0".
func DescribeGPU(device gpu.Device) string {
	return fmt.Sprintf("device: %d, name: %s, pci bus id: %s", device.Ordinal, device.Name, device.PCIBusID)
}
