// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
)

// placePruned returns the devices of the nodes that a run executes, and -1 for all others, which may request devices
// that do not exist. It places a copy of that part of the graph.
func (s *Session) placePruned(request RunRequest) ([]int32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, status.Errorf(status.FailedPrecondition, "Attempted to use a closed Session.")
	}
	nodes := request.needed()
	part := pruned(nodes, request)
	places, order, err := place(s.devices, s.options.SoftPlacement, part, nil)
	if err != nil {
		return nil, err
	}
	placed := make([]int32, len(s.graph.all()))
	for i := range placed {
		placed[i] = -1
	}
	for i, n := range nodes {
		placed[n.id] = places[i]
	}
	if s.options.LogPlacement {
		s.logged = append(s.logged, make([]bool, len(placed)-len(s.logged))...)
		for _, at := range order {
			if n := nodes[at]; !s.logged[n.id] {
				s.logged[n.id] = true
				s.log = append(s.log, placementLine(n, s.devices, int(places[at])))
			}
		}
	}
	return placed, nil
}

// pruned copies nodes, numbers the copies from 0, and connects them with each other only. A fed node reads nothing and
// may be anywhere.
func pruned(nodes []*Node, request RunRequest) []*Node {
	copies := make(map[*Node]*Node, len(nodes))
	part := make([]*Node, len(nodes))
	for i, n := range nodes {
		duplicate := *n
		duplicate.id = i
		part[i], copies[n] = &duplicate, &duplicate
	}
	for _, n := range part {
		n.inputs, n.controls, n.colocated = among(n.inputs, copies), among(n.controls, copies), copies[n.colocated]
	}
	for _, feed := range request.Feeds {
		if n := copies[feed.Node]; n != nil {
			n.inputs, n.controls, n.colocated, n.request = nil, nil, nil, &devname.Name{}
		}
	}
	return part
}

func among(nodes []*Node, copies map[*Node]*Node) []*Node {
	var duplicates []*Node
	for _, n := range nodes {
		if duplicate := copies[n]; duplicate != nil {
			duplicates = append(duplicates, duplicate)
		}
	}
	return duplicates
}
