// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
)

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
