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
// It makes three passes over the nodes, in loading order. First it checks each node's request against the available
// devices; the error names the first node that cannot be satisfied. Then it places the nodes with inputs. Constants and
// placeholders come last: if all readers of one are on one device, it is placed there if allowed, to avoid a copy.
type placer struct {
	devices *Devices
	soft    bool
	first   int     // the number of the first new node
	nodes   []*Node // the new nodes
	placed  []int32 // the devices of all nodes, by number; -1 while a node has none
	readers adjacency
	wishes  []wish // by new node
	found   map[wish]int32
}

// wish is everything that the choice of a device depends on. Most nodes have the same.
type wish struct {
	request *devname.Name
	types   typeSet // device types that have a kernel for the node
	soft    bool    // the request can be satisfied only under soft placement
}

// pattern returns the pattern that a node's device must match.
func (w wish) pattern() devname.Name {
	if w.soft {
		return soften(*w.request)
	}
	return *w.request
}

// place returns the devices of all nodes (invariants 3 and 4), and the numbers of the new nodes in the order in which
// they are logged. placed holds the devices of the first nodes; it is appended to, not changed.
func place(devices *Devices, soft bool, nodes []*Node, placed []int32) (all, order []int32, err error) {
	p := &placer{devices: devices, soft: soft, first: len(placed), nodes: nodes[len(placed):], placed: placed,
		found: map[wish]int32{}}
	for _, n := range p.nodes {
		p.placed = append(p.placed, -1)
		p.wishes = append(p.wishes, wish{n.request, supportedTypes(n.op, n.dtype), false})
	}
	p.readers = newReaders(p.nodes, p.first)
	order = loadingOrder(p.readers, p.first)
	for _, id := range order {
		if err := p.satisfy(nodes[id]); err != nil {
			return nil, nil, err
		}
	}
	var sources []*Node
	for _, id := range order {
		if n := nodes[id]; n.op == Const || n.op == Placeholder {
			sources = append(sources, n)
		} else {
			p.placed[id] = p.preferred(n)
		}
	}
	for _, n := range sources {
		p.placed[n.id] = p.nearReaders(n)
	}
	return p.placed, order, nil
}

func (p *placer) wishOf(n *Node) *wish { return &p.wishes[n.id-p.first] }

// find returns the device that placement chooses for a wish, or -1.
func (p *placer) find(w wish) int32 {
	at, known := p.found[w]
	if !known {
		at = int32(p.devices.find(w.pattern(), w.types))
		p.found[w] = at
	}
	return at
}

// satisfy checks whether a node's request can be satisfied, if necessary under soft placement.
func (p *placer) satisfy(n *Node) error {
	w := p.wishOf(n)
	if p.find(*w) >= 0 {
		return nil
	}
	w.soft = p.soft
	if w.soft && p.find(*w) >= 0 {
		return nil
	}
	return p.explain(n)
}

// allows reports whether a node may be on a device, which may not be known yet.
func (p *placer) allows(n *Node, device int32) bool {
	w := p.wishOf(n)
	return device >= 0 && p.devices.allows(w.pattern(), w.types, int(device))
}

// preferred returns the device for a node: its input's for some Identity nodes, else the first suitable one.
func (p *placer) preferred(n *Node) int32 {
	if p.goesWithInput(n) {
		if at := p.placed[n.inputs[0].id]; p.allows(n, at) {
			return at
		}
	}
	return p.find(*p.wishOf(n))
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
	at := int32(-1)
	for i, reader := range p.readers.of(n.id - p.first) {
		if i > 0 && p.placed[reader] != at {
			return p.preferred(n)
		}
		at = p.placed[reader]
	}
	if !p.allows(n, at) {
		return p.preferred(n)
	}
	return at
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

// explain returns the error for a node whose request no device satisfies.
func (p *placer) explain(n *Node) error {
	if !p.devices.anyMatches(*n.request) {
		return p.noDevice(n)
	}
	return status.Errorf(status.InvalidArgument, "Cannot assign a device for operation %s: Could not satisfy explicit "+
		"device specification '%s' because no supported kernel for %s devices is available.\nOp: %s\nNode attrs: %s\n"+
		"Registered kernels:\n%s\n\t [[{{node %s}}]]", n.name, n.request, n.request.Type, n.op, n.attributes(),
		strings.TrimRight(describeKernels(n.op), "\n"), n.name)
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
		if device.Description != "" {
			lines = append(lines, fmt.Sprintf("%s -> %s", v1Name(d.names[i]), device.Description))
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
