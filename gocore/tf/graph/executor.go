// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"errors"
	"slices"

	"gpuconf/gocore/base/status"
)

// RunStats counts what a run did.
type RunStats struct {
	Nodes       int    // operations executed
	Copies      int    // tensors copied from one device's memory to another's
	CopiedBytes uint64 // their total size
}

// RunRequest is what a run computes.
type RunRequest struct {
	Fetches []*Node // nodes whose tensors are returned
	Targets []*Node // nodes that are executed without returning their tensors
	Feeds   []Feed  // each node at most once
}

// Feed is a value that replaces a node's tensor in one run.
type Feed struct {
	Node *Node // the node whose tensor is replaced
	// Value has the node's type, a shape that fits the node's, and all its elements. It is read until the run ends.
	Value Value
}

// check validates a request to run a graph.
func (r RunRequest) check(g *Graph) error {
	for _, nodes := range [][]*Node{r.Fetches, r.Targets} {
		for _, n := range nodes {
			if n == nil || n.graph != g {
				return errForeign(n)
			}
		}
	}
	for _, n := range r.Fetches {
		if !n.HasTensor() {
			return status.Errorf(status.InvalidArgument, "%s has no tensor to fetch", n.name)
		}
	}
	for _, feed := range r.Feeds {
		n, v := feed.Node, feed.Value
		if n == nil || n.graph != g {
			return errForeign(n)
		}
		if v.DType != n.dtype || !n.shape.matches(v.Shape) || v.Shape.check(v.DType) != nil ||
			uint64(len(v.Bytes)) != v.Shape.bytes(v.DType) {
			return status.Errorf(status.InvalidArgument, "Cannot feed value of shape %s and type %s (%d bytes) for %s",
				v.Shape, typeName(v.DType), len(v.Bytes), n.describe())
		}
	}
	return nil
}

// run executes the nodes that a request needs (invariant 6), in order of creation: a node's inputs and control inputs
// come before it (invariant 1).
type run struct {
	devices *Devices
	placed  []int32
	fetches []*Node
	targets []*Node
	fed     map[*Node]Value
	steps   []step
	at      map[*Node]int // into steps
	results []*Tensor     // by fetch
	stats   RunStats
}

// step is a node to execute, and its tensor until its last read.
type step struct {
	node    *Node
	shape   Shape // of the tensor in this run
	memory  int
	tensor  *Tensor
	reads   int      // remaining reads in the tensor's own memory, including the copy to each mirror
	mirrors []mirror // for readers elsewhere, one for each memory
}

// mirror is a copy of a tensor in another memory, until its last read there.
type mirror struct {
	memory int
	tensor *Tensor // nil before the first reader needs it
	reads  int
}

// newRun determines which nodes to execute, and how often each tensor is read in each memory.
func newRun(devices *Devices, placed []int32, request RunRequest) *run {
	r := &run{
		devices: devices, placed: placed, fetches: request.Fetches, targets: request.Targets, at: map[*Node]int{},
		results: make([]*Tensor, len(request.Fetches)),
	}
	r.fed = make(map[*Node]Value, len(request.Feeds))
	for _, feed := range request.Feeds {
		r.fed[feed.Node] = feed.Value
	}
	for _, n := range request.needed() {
		r.steps = append(r.steps, step{node: n})
	}
	for i := range r.steps {
		s := &r.steps[i]
		r.at[s.node] = i
		if _, fed := r.fed[s.node]; fed {
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

// infer determines the shapes of all tensors before any node is executed (invariant 5), or returns the error of the
// first node without one.
func (r *run) infer() error {
	for i := range r.steps {
		s := &r.steps[i]
		if err := r.inferStep(s); err != nil {
			return r.atNode(err, s.node)
		}
	}
	return nil
}

func (r *run) inferStep(s *step) error {
	n := s.node
	value, fed := r.fed[n]
	switch {
	case n.op == Placeholder && (!fed || slices.Contains(r.targets, n)):
		return errNotFed(n)
	case fed:
		s.shape = value.Shape
		return nil
	}
	if !n.deferred {
		s.shape = n.shape.Sizes
		return nil
	}
	in := make([]Shape, len(n.inputs))
	for i, input := range n.inputs {
		in[i] = r.steps[r.at[input]].shape
	}
	if reason := eagerReason(n.op, n.attrs, in); reason != "" {
		return status.Errorf(status.InvalidArgument, "%s", reason)
	}
	s.shape = resultShape(n.op, n.attrs, in)
	return s.shape.check(n.dtype)
}

// errNotFed is the error for a placeholder without a value. A fed placeholder that is a target fails too, as in
// TensorFlow: a feed replaces its tensor, and a target executes the operation itself.
func errNotFed(n *Node) error {
	shape := ""
	if !n.shape.Unranked {
		shape = " and shape " + n.shape.String()
	}
	return status.Errorf(status.InvalidArgument, "You must feed a value for placeholder tensor '%s' with dtype %s%s",
		n.name, typeName(n.dtype), shape)
}

// needed returns the nodes to execute, in the order of their numbers: fetches, targets, and what they read or wait for.
// A fed node reads nothing.
func (request *RunRequest) needed() []*Node {
	fed := make(map[*Node]bool, len(request.Feeds))
	for _, feed := range request.Feeds {
		fed[feed.Node] = true
	}
	var ordered []*Node
	seen := map[*Node]bool{}
	stack := slices.Concat(request.Fetches, request.Targets)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		ordered = append(ordered, n)
		if !fed[n] {
			stack = append(stack, n.inputs...)
			stack = append(stack, n.controls...)
		}
	}
	slices.SortFunc(ordered, func(a, b *Node) int { return cmp.Compare(a.id, b.id) })
	return ordered
}

// expect counts a read in a memory. The first read in another memory also reads the tensor in its own memory, to copy
// it.
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

// execute executes the steps. Afterwards no tensor but the results is held, even after an error.
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
	if n.HasTensor() {
		out, err := r.devices.compute(operation{n.op, n.attrs, n.dtype, s.shape, int(r.placed[n.id])}, in)
		if err != nil {
			return r.atNode(err, n)
		}
		s.tensor = out
	}
	r.stats.Nodes++
	for _, input := range s.node.inputs {
		if err := r.steps[r.at[input]].done(s.memory); err != nil {
			return r.atNode(err, n)
		}
	}
	return r.deliver(s)
}

// deliver passes a new tensor to its fetches, or releases it if it has no readers.
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

// take returns a step's tensor in a memory, copying it if necessary.
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

// done ends one read in a memory; the last one releases the tensor.
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

// abandon releases everything that a failed run holds (invariant 7).
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

// atNode adds the failing node to an error.
func (r *run) atNode(err error, n *Node) error {
	device := v1Name(r.devices.names[r.placed[n.id]])
	return status.Errorf(status.CodeOf(err), "%w\n\t [[Node: %s]]", err, n.summary(device))
}
