// SPDX-License-Identifier: Apache-2.0

package process

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/gocore/tf/graph"
)

// Session is a graph's session on the devices of one Manager.
type Session struct {
	*graph.Session
	Graph *graph.Graph // whose nodes a Step numbers
	work  *Work
}

// SessionRequest describes a new session.
type SessionRequest struct {
	Graph   int64          // the number of the graph, from NewGraph
	Devices config.Options // the logical devices that it wants

	// Its placement options; nil uses the configuration's, which are off by default.
	SoftPlacement, LogPlacement *bool

	PlacePruned bool // place only the nodes that a run executes, anew in each run
}

// OpenSession opens a session on the devices that it requests, which it creates if necessary. origin is the caller, as
// "file:line (call)". renamed reports whether the logical devices have changed.
func (p *State) OpenSession(request SessionRequest, env config.Env, origin string) (id int64, renamed bool, err error) {
	g, err := p.Graph(request.Graph)
	if err != nil {
		return 0, false, err
	}
	w, err := p.Work()
	if err != nil {
		return 0, false, err
	}
	options, err := w.sessionOptions(request)
	if err != nil {
		return 0, false, err
	}
	devices, renamed, err := w.join(request.Devices, env, origin, p.nextGeneration)
	if err != nil {
		return 0, renamed, err
	}
	p.publishFrom(w.manager, env)
	return p.sessions.put(&Session{graph.NewSession(g, devices, options), g, w}), renamed, nil
}

// sessionOptions takes options that the session does not set from the configuration.
func (w *Work) sessionOptions(request SessionRequest) (options graph.SessionOptions, err error) {
	options.PlacePruned = request.PlacePruned
	err = w.manager.Inspect(func(s *config.State) error {
		if request.SoftPlacement == nil {
			options.SoftPlacement, err = s.SoftPlacement(false)
		} else {
			options.SoftPlacement = *request.SoftPlacement
		}
		if request.LogPlacement == nil && err == nil {
			options.LogPlacement, err = s.LogPlacement()
		} else if request.LogPlacement != nil {
			options.LogPlacement = *request.LogPlacement
		}
		return err
	})
	return options, err
}

// initialize builds the logical devices, unless they exist. moved is that of join.
func (w *Work) initialize(env config.Env, origin string, moved func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errReset()
	}
	renamed, err := w.manager.Initialize(env, origin, w.unusedLocked)
	w.renameLocked(renamed, moved)
	return err
}

// renameLocked drops the devices for eager operations if device names have changed.
func (w *Work) renameLocked(renamed bool, moved func()) {
	if renamed && w.devices != nil {
		w.devices = nil
		moved()
	}
}

// join returns the devices that a session sees. If device names change, no tensor may be live, because its device would
// no longer exist; moved is called after the change.
func (w *Work) join(options config.Options, env config.Env, origin string, moved func()) (*graph.Devices, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, false, errReset()
	}
	view, renamed, err := w.manager.Join(options, env, origin, w.unusedLocked)
	w.renameLocked(renamed, moved)
	if err != nil {
		return nil, renamed, err
	}
	if w.devices == nil && w.manager.Initialized() {
		if err := w.prepareLocked(); err != nil {
			return nil, renamed, err
		}
	}
	if w.devices != nil && view == w.full {
		return w.devices, renamed, nil
	}
	devices, err := w.machine().Devices(view.CPUs, view.GPUs)
	return devices, renamed, err
}

// Step describes a run of a session, with nodes by their numbers.
type Step struct {
	Fetches, Targets, Feeds []int64 // nodes to return, nodes to run only, and nodes with given values

	Into   [][]byte      // by fetch: where to write its elements, of exactly their size
	From   [][]byte      // by feed: the elements
	Shapes []graph.Shape // by feed
}

// request finds the nodes of a step.
func (s *Session) request(step Step) (r graph.RunRequest, err error) {
	if r.Fetches, err = NodesOf(s.Graph, step.Fetches); err != nil {
		return r, err
	}
	if r.Targets, err = NodesOf(s.Graph, step.Targets); err != nil {
		return r, err
	}
	fed, err := NodesOf(s.Graph, step.Feeds)
	for i, n := range fed {
		r.Feeds = append(r.Feeds, graph.Feed{Node: n, Value: graph.Value{DType: n.DType(), Shape: step.Shapes[i],
			Bytes: step.From[i]}})
	}
	return r, err
}

// Run computes a step.
func (s *Session) Run(step Step) (stats graph.RunStats, err error) {
	request, err := s.request(step)
	if err != nil {
		return stats, err
	}
	if err := s.work.begin(); err != nil {
		return stats, err
	}
	defer s.work.runs.Add(-1)
	tensors, stats, err := s.Session.Run(request)
	if err != nil {
		return stats, err
	}
	for i, t := range tensors {
		if err == nil {
			err = t.Read(step.Into[i])
		}
		if refusal := t.Release(); err == nil {
			err = refusal
		}
	}
	return stats, err
}

// Shapes returns the shapes of a step's results.
func (s *Session) Shapes(step Step) ([]graph.Shape, error) {
	request, err := s.request(step)
	if err != nil {
		return nil, err
	}
	if err := s.work.begin(); err != nil {
		return nil, err
	}
	defer s.work.runs.Add(-1)
	return s.Session.Shapes(request)
}

// ListDevices describes the session's devices, unless they were released.
func (s *Session) ListDevices() ([]graph.DeviceAttributes, error) {
	if err := s.work.begin(); err != nil {
		return nil, err
	}
	defer s.work.runs.Add(-1)
	return s.Session.ListDevices()
}

// begin counts a run, unless the devices were released.
func (w *Work) begin() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return status.Errorf(status.FailedPrecondition, "the runtime of this Session was reset. Open a new one; the "+
			"graph can be used again")
	}
	w.runs.Add(1)
	return nil
}

// NewGraph creates an empty graph. Graphs are independent of the devices and survive a reset.
func (p *State) NewGraph() int64 { return p.graphs.put(&graph.Graph{}) }

// Graph finds a graph.
func (p *State) Graph(id int64) (*graph.Graph, error) { return p.graphs.get(id, "graph") }

// DropGraph releases a graph. Sessions on it keep working.
func (p *State) DropGraph(id int64) error {
	_, err := p.graphs.remove(id, "graph")
	return err
}

// NodesOf finds nodes of a graph.
func NodesOf(g *graph.Graph, ids []int64) ([]*graph.Node, error) {
	nodes := make([]*graph.Node, len(ids))
	for i, id := range ids {
		node, there := g.Node(int(id))
		if !there {
			return nil, status.Errorf(status.InvalidArgument, "there is no node %d in this graph", id)
		}
		nodes[i] = node
	}
	return nodes, nil
}

// Session finds an open session.
func (p *State) Session(id int64) (*Session, error) { return p.sessions.get(id, "session") }

// CloseSession closes a session. Runs in progress continue.
func (p *State) CloseSession(id int64) error {
	s, err := p.sessions.remove(id, "session")
	if err == nil {
		s.Close()
	}
	return err
}
