// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"math/rand/v2"
	"sync"

	"gpuconf/gocore/base/status"
)

// SessionOptions are the placement options of a session.
type SessionOptions struct {
	SoftPlacement bool // allow another device if the requested device does not exist
	LogPlacement  bool // keep the placement log for DrainLog
	PlacePruned   bool // place only the nodes that a run executes, anew in each run
}

// Session places the nodes of a graph on devices and runs them, including nodes that are added later. It is safe for
// concurrent use.
type Session struct {
	graph   *Graph
	devices *Devices
	options SessionOptions

	incarnations []int64 // by device

	mu     sync.Mutex
	placed []int32  // guarded by mu; the devices of the graph's first nodes
	logged []bool   // guarded by mu; by node, with PlacePruned
	log    []string // guarded by mu
	closed bool     // guarded by mu
}

// NewSession opens a session. Its log begins with the device mapping.
func NewSession(g *Graph, devices *Devices, options SessionOptions) *Session {
	s := &Session{graph: g, devices: devices, options: options}
	for range devices.list {
		s.incarnations = append(s.incarnations, int64(rand.Uint64()))
	}
	if options.LogPlacement {
		s.log = devices.MappingLines()
	}
	return s
}

// Run executes a request and returns the tensors of its fetches in the same order. Each is a separate tensor in the
// first CPU's memory, and the caller must release it. The whole graph is placed first, including nodes that are not
// executed, unless the session has PlacePruned.
func (s *Session) Run(request RunRequest) ([]*Tensor, RunStats, error) {
	r, err := s.prepare(request)
	if err != nil {
		return nil, RunStats{}, err
	}
	return r.execute()
}

// Shapes returns the shapes that Run's tensors would have. It fails like Run for a request that Run refuses before it
// executes anything.
func (s *Session) Shapes(request RunRequest) ([]Shape, error) {
	r, err := s.prepare(request)
	if err != nil {
		return nil, err
	}
	shapes := make([]Shape, len(r.fetches))
	for i, n := range r.fetches {
		shapes[i] = r.steps[r.at[n]].shape
	}
	return shapes, nil
}

// prepare checks a request, places the graph, and determines what to execute.
func (s *Session) prepare(request RunRequest) (*run, error) {
	if err := request.check(s.graph); err != nil {
		return nil, err
	}
	place := s.place
	if s.options.PlacePruned {
		place = func() ([]int32, error) { return s.placePruned(request) }
	}
	placed, err := place()
	if err != nil {
		return nil, err
	}
	r := newRun(s.devices, placed, request)
	return r, r.infer()
}

// place places the new nodes and returns the devices of all nodes.
func (s *Session) place() ([]int32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, status.Errorf(status.FailedPrecondition, "Attempted to use a closed Session.")
	}
	nodes := s.graph.all()
	if len(nodes) == len(s.placed) {
		return s.placed, nil
	}
	placed, order, err := place(s.devices, s.options.SoftPlacement, nodes, s.placed)
	if err != nil {
		return nil, err
	}
	s.placed = placed
	if s.options.LogPlacement {
		for _, id := range order {
			s.log = append(s.log, placementLine(nodes[id], s.devices, int(placed[id])))
		}
	}
	return placed, nil
}

// DeviceAttributes describes a device of a session.
type DeviceAttributes struct {
	Name        string // the full name
	Type        string // "CPU" or "GPU"
	MemoryLimit uint64 // in bytes
	Incarnation int64  // a random number, different in each session
}

// ListDevices describes the session's devices, in the order of the device list. It fails if a device no longer exists.
func (s *Session) ListDevices() ([]DeviceAttributes, error) {
	list := make([]DeviceAttributes, len(s.devices.list))
	for i, device := range s.devices.list {
		limit, err := device.MemoryLimit()
		if err != nil {
			return nil, err
		}
		list[i] = DeviceAttributes{s.devices.texts[i], s.devices.names[i].Type, limit, s.incarnations[i]}
	}
	return list, nil
}

// Placement returns the full name of a node's device; ok is false if the node is not placed yet.
func (s *Session) Placement(n *Node) (device string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == nil || n.graph != s.graph || n.id >= len(s.placed) {
		return "", false
	}
	return s.devices.texts[s.placed[n.id]], true
}

// DrainLog returns the lines of the placement log since the last call, oldest first.
func (s *Session) DrainLog() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.log
	s.log = nil
	return lines
}

// Close closes the session. Runs in progress continue; later ones fail. A second Close does nothing.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.placed = nil
}

func errForeign(n *Node) error {
	if n == nil {
		return status.Errorf(status.InvalidArgument, "a fetch is not a node")
	}
	return status.Errorf(status.InvalidArgument, "Tensor %s is not an element of this graph.", n.describe())
}
