package graph

import (
	"math/rand/v2"
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

	incarnations []int64 // by device

	mu     sync.Mutex
	placed []int32  // guarded by mu; the devices of the graph's first nodes
	log    []string // guarded by mu
	closed bool     // guarded by mu
}

// NewSession opens a session. The device mapping is the first thing in its log.
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

// Run executes a request and returns the tensors of its fetches in the same order, each a tensor of its own in the first CPU's memory
// that the caller releases. The whole graph is placed first, including what is not executed.
func (s *Session) Run(request RunRequest) ([]*Tensor, RunStats, error) {
	if err := request.check(s.graph); err != nil {
		return nil, RunStats{}, err
	}
	placed, err := s.place()
	if err != nil {
		return nil, RunStats{}, err
	}
	return newRun(s.devices, placed, request).execute()
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

// DeviceAttributes describes a device of a session.
type DeviceAttributes struct {
	Name        string // the full name
	Type        string
	MemoryLimit uint64 // in bytes
	Incarnation int64  // a random number: another session's device of the same name has another one
}

// ListDevices describes the session's devices, in the order of the device list. It fails where a device is gone.
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
		return status.Errorf(status.InvalidArgument, "a fetch is not a node")
	}
	return status.Errorf(status.InvalidArgument, "Tensor %s is not an element of this graph.", n.describe())
}
