// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"strings"

	"gpuconf/gocore/base/status"
)

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
