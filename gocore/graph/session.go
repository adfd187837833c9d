package graph

import (
	"sync"

	"gpuconf/gocore/status"
)

// SessionOptions is how a session places.
type SessionOptions struct {
	SoftPlacement bool // another device will do where the one that was asked for is not there
	LogPlacement  bool // keep the placement log for DrainLog
}

// Session places the nodes of a graph on devices and runs them. It sees nodes that are added later. Any number of goroutines may
// use it.
type Session struct {
	graph   *Graph
	devices *Devices
	options SessionOptions

	mu     sync.Mutex
	placed []int32  // guarded by mu; the devices of the graph's first nodes
	log    []string // guarded by mu
	closed bool     // guarded by mu
}

// NewSession opens a session. The device mapping is the first thing in its log.
func NewSession(g *Graph, devices *Devices, options SessionOptions) *Session {
	s := &Session{graph: g, devices: devices, options: options}
	if options.LogPlacement {
		s.log = devices.MappingLines()
	}
	return s
}

// Run computes the tensors of some nodes and gives them in the same order, each a tensor of its own in the first CPU's memory that
// the caller releases. The whole graph is placed first, what is not fetched too.
func (s *Session) Run(fetches []*Node) ([]*Tensor, RunStats, error) {
	for _, n := range fetches {
		if n == nil || n.graph != s.graph {
			return nil, RunStats{}, errForeign(n)
		}
	}
	placed, err := s.place()
	if err != nil {
		return nil, RunStats{}, err
	}
	return newRun(s.devices, placed, fetches).execute()
}

// place puts the nodes that are new on devices and gives the devices of all.
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

// Placement gives the full name of the device that a node is on; ok is false for one that is not placed yet.
func (s *Session) Placement(n *Node) (device string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == nil || n.graph != s.graph || n.id >= len(s.placed) {
		return "", false
	}
	return s.devices.texts[s.placed[n.id]], true
}

// DrainLog hands out the lines of the placement log, oldest first, once.
func (s *Session) DrainLog() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.log
	s.log = nil
	return lines
}

// Close ends the session. Runs that have begun go on; later ones fail. A second Close does nothing.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.placed = nil
}

func errForeign(n *Node) error {
	if n == nil {
		return status.Errorf(status.InvalidArgument, "a fetch is no node")
	}
	return status.Errorf(status.InvalidArgument, "Tensor %s is not an element of this graph.", n.describe())
}
