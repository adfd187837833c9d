package graph

import (
	"cmp"
	"errors"
	"slices"

	"gpuconf/gocore/status"
)

// RunStats counts what a run did.
type RunStats struct {
	Nodes       int    // operations executed
	Copies      int    // tensors copied from one device's memory to another's
	CopiedBytes uint64 // the bytes of those
}

// RunRequest is what a run computes.
type RunRequest struct {
	Fetches []*Node // their tensors are wanted
	Targets []*Node // they are executed, and their tensors dropped
	Feeds   []Feed  // each node at most once
}

// Feed is a value that stands for a node's tensor in one run.
type Feed struct {
	Node  *Node
	Value Value // of the node's type and shape, with all its elements; it is read until the run ends
}

// check finds what a run of a graph can't be asked for.
func (r RunRequest) check(g *Graph) error {
	for _, nodes := range [][]*Node{r.Fetches, r.Targets} {
		for _, n := range nodes {
			if n == nil || n.graph != g {
				return errForeign(n)
			}
		}
	}
	for _, feed := range r.Feeds {
		n, v := feed.Node, feed.Value
		if n == nil || n.graph != g {
			return errForeign(n)
		}
		if v.DType != n.dtype || !slices.Equal(v.Shape, n.shape) || uint64(len(v.Bytes)) != n.shape.bytes(n.dtype) {
			return status.Errorf(status.InvalidArgument, "Cannot feed value of shape %s and type %s (%d bytes) for %s",
				v.Shape, typeName(v.DType), len(v.Bytes), n.describe())
		}
	}
	return nil
}

// run executes what a request needs, in the order in which the nodes were made: a node's inputs and control inputs come before it.
type run struct {
	devices *Devices
	placed  []int32
	fetches []*Node
	fed     map[*Node]Value
	steps   []step
	at      map[*Node]int // into steps
	results []*Tensor     // by fetch
	stats   RunStats
}

// step is a node to execute, and its tensor while somebody still has to read it.
type step struct {
	node    *Node
	memory  int
	tensor  *Tensor
	reads   int      // still to come in the tensor's own memory, counting the making of each mirror
	mirrors []mirror // for readers elsewhere, one for each memory
}

// mirror is a tensor in another memory than its own, while somebody still has to read it there.
type mirror struct {
	memory int
	tensor *Tensor // nil before the first reader needs it
	reads  int
}

// newRun finds what has to be executed, and how often each tensor will be read where.
func newRun(devices *Devices, placed []int32, request RunRequest) *run {
	r := &run{devices: devices, placed: placed, fetches: request.Fetches, at: map[*Node]int{}, results: make([]*Tensor, len(request.Fetches))}
	r.fed = make(map[*Node]Value, len(request.Feeds))
	for _, feed := range request.Feeds {
		r.fed[feed.Node] = feed.Value
	}
	r.collect(slices.Concat(request.Fetches, request.Targets))
	for i := range r.steps {
		s := &r.steps[i]
		r.at[s.node] = i
		if r.isFed(s.node) {
			s.memory = devices.host
			continue
		}
		s.memory = devices.memoryFor(s.node.op, s.node.dtype, int(placed[s.node.id]))
		for _, input := range s.node.inputs {
			r.steps[r.at[input]].expect(s.memory)
		}
	}
	for _, n := range r.fetches {
		r.steps[r.at[n]].expect(devices.host)
	}
	return r
}

func (r *run) isFed(n *Node) bool {
	_, fed := r.fed[n]
	return fed
}

// collect makes a step of every node that the wanted ones need.
func (r *run) collect(wanted []*Node) {
	seen := map[*Node]bool{}
	stack := wanted
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		r.steps = append(r.steps, step{node: n})
		if !r.isFed(n) {
			stack = append(stack, n.inputs...)
			stack = append(stack, n.controls...)
		}
	}
	slices.SortFunc(r.steps, func(a, b step) int { return cmp.Compare(a.node.id, b.node.id) })
}

// expect notes a reader in a memory. The first one elsewhere also reads the tensor where it is, to copy it.
func (s *step) expect(memory int) {
	if memory == s.memory {
		s.reads++
		return
	}
	m := s.mirrorIn(memory)
	if m == nil {
		s.reads++
		s.mirrors = append(s.mirrors, mirror{memory: memory})
		m = &s.mirrors[len(s.mirrors)-1]
	}
	m.reads++
}

func (s *step) mirrorIn(memory int) *mirror {
	i := slices.IndexFunc(s.mirrors, func(m mirror) bool { return m.memory == memory })
	if i < 0 {
		return nil
	}
	return &s.mirrors[i]
}

// execute goes through the steps. Whatever happens, no tensor but the results is left.
func (r *run) execute() ([]*Tensor, RunStats, error) {
	for i := range r.steps {
		if err := r.executeStep(&r.steps[i]); err != nil {
			return nil, RunStats{}, errors.Join(err, r.abandon())
		}
	}
	return r.results, r.stats, nil
}

func (r *run) executeStep(s *step) error {
	if value, fed := r.fed[s.node]; fed {
		var err error
		if s.tensor, err = r.devices.upload(value, s.memory, s.memory); err != nil {
			return r.atNode(err, s.node)
		}
		return r.deliver(s)
	}
	in := make([]*Tensor, len(s.node.inputs))
	for i, input := range s.node.inputs {
		var err error
		if in[i], err = r.take(&r.steps[r.at[input]], s.memory); err != nil {
			return r.atNode(err, s.node)
		}
	}
	n := s.node
	out, err := r.devices.compute(operation{n.op, n.attrs, n.dtype, n.shape, int(r.placed[n.id])}, in)
	if err != nil {
		return r.atNode(err, n)
	}
	s.tensor = out
	r.stats.Nodes++
	for _, input := range s.node.inputs {
		if err := r.steps[r.at[input]].done(s.memory); err != nil {
			return r.atNode(err, n)
		}
	}
	return r.deliver(s)
}

// deliver hands a new tensor to the fetches that want it, and releases one that has no readers.
func (r *run) deliver(s *step) error {
	if s.reads == 0 {
		unread := s.tensor
		s.tensor = nil
		if err := unread.Release(); err != nil {
			return r.atNode(err, s.node)
		}
		return nil
	}
	for i, n := range r.fetches {
		if n != s.node {
			continue
		}
		t, err := r.take(s, r.devices.host)
		if err != nil {
			return r.atNode(err, n)
		}
		r.results[i] = t.share(t.device)
		if err := s.done(r.devices.host); err != nil {
			return r.atNode(err, n)
		}
	}
	return nil
}

// take gives a step's tensor in a memory, copied if need be.
func (r *run) take(s *step, memory int) (*Tensor, error) {
	if memory == s.memory {
		return s.tensor, nil
	}
	m := s.mirrorIn(memory)
	if m.tensor != nil {
		return m.tensor, nil
	}
	t, err := s.tensor.copyTo(memory)
	if err != nil {
		return nil, err
	}
	m.tensor = t
	r.stats.Copies++
	r.stats.CopiedBytes += t.Bytes()
	return t, s.done(s.memory)
}

// done ends one read in a memory, and the last one releases what was read.
func (s *step) done(memory int) error {
	reads, tensor := &s.reads, &s.tensor
	if memory != s.memory {
		m := s.mirrorIn(memory)
		reads, tensor = &m.reads, &m.tensor
	}
	if *reads--; *reads > 0 {
		return nil
	}
	last := *tensor
	*tensor = nil
	return last.Release()
}

// abandon releases all that a failed run still holds.
func (r *run) abandon() error {
	var err error
	for _, s := range r.steps {
		err = errors.Join(err, s.tensor.Release())
		for _, m := range s.mirrors {
			err = errors.Join(err, m.tensor.Release())
		}
	}
	for _, t := range r.results {
		err = errors.Join(err, t.Release())
	}
	return err
}

// atNode says in which node something went wrong.
func (r *run) atNode(err error, n *Node) error {
	device := v1Name(r.devices.names[r.placed[n.id]])
	return status.Errorf(status.CodeOf(err), "%w\n\t [[Node: %s]]", err, n.summary(device))
}
