// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"math/rand/v2"
	"sync"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
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
		n.inputs, n.controls = among(n.inputs, copies), among(n.controls, copies)
	}
	for _, feed := range request.Feeds {
		if n := copies[feed.Node]; n != nil {
			n.inputs, n.controls, n.request = nil, nil, &devname.Name{}
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

// adjacency holds lists of node numbers in one array: list i is lists[start[i]:start[i+1]].
type adjacency struct {
	start, lists []int32
}

func (a adjacency) of(i int) []int32 { return a.lists[a.start[i]:a.start[i+1]] }

// newReaders lists, for each node, the nodes that read it, once per read, and those that only wait for it, in order.
// The nodes are numbered from first.
func newReaders(nodes []*Node, first int) adjacency {
	a := adjacency{start: make([]int32, len(nodes)+1)}
	each := func(use func(input, reader int)) {
		for _, n := range nodes {
			for _, before := range [][]*Node{n.inputs, n.controls} {
				for _, input := range before {
					if input.id >= first {
						use(input.id-first, n.id)
					}
				}
			}
		}
	}
	each(func(input, _ int) { a.start[input+1]++ })
	for i := range nodes {
		a.start[i+1] += a.start[i]
	}
	a.lists = make([]int32, a.start[len(nodes)])
	end := append([]int32(nil), a.start...)
	each(func(input, reader int) {
		a.lists[end[input]] = int32(reader)
		end[input]++
	})
	return a
}

// loadingOrder returns the order in which TensorFlow loads a graph, logs placements and reports errors: of the nodes
// whose inputs are loaded, the one that became ready last comes next.
func loadingOrder(readers adjacency, first int) []int32 {
	waiting := make([]int32, len(readers.start)-1) // by node: inputs not yet loaded
	for _, reader := range readers.lists {
		waiting[int(reader)-first]++
	}
	var ready []int32
	for i, inputs := range waiting {
		if inputs == 0 {
			ready = append(ready, int32(i))
		}
	}
	order := make([]int32, 0, len(waiting))
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		order = append(order, i+int32(first))
		for _, reader := range readers.of(int(i)) {
			if waiting[int(reader)-first]--; waiting[int(reader)-first] == 0 {
				ready = append(ready, reader-int32(first))
			}
		}
	}
	return order
}
