package sim

import (
	"maps"
	"slices"
	"sync/atomic"

	"gpuconf/gocore/gpu"
)

// Graph is work that was captured, GraphExec what can be launched of it: a CUgraph and a CUgraphExec by number.
type (
	Graph     uint64
	GraphExec uint64
)

// capture is a graph that is being written. queues.mu guards it, as it does graphs.
type capture struct {
	id      uint64
	origin  *stream
	clocks  map[*stream]progress // of those that take part: what their next work comes after
	work    []*work              // in the order of the calls, which is one of those that a launch may take
	life    *life
	spoiled bool
}

// progress counts, by stream of a capture, what comes before a place in it. Taking part counts as work, too.
type progress map[*stream]int

// graph is what a capture has come to, or an executable made of it.
type graph struct {
	card *card
	work []*work
	life *life
}

// life counts what keeps a graph: itself, executables, launches.
type life struct {
	holds int
	ended atomic.Bool
}

// Ended tells whether nothing is left.
func (l *life) Ended() bool { return l.ended.Load() }

func (l *life) drop() {
	if l.holds--; l.holds == 0 {
		l.ended.Store(true)
	}
}

// The lowest numbers of graphs and executables.
const (
	firstGraph = 0x300
	firstExec  = 0x400
)

// take writes work down that is queued in a captured stream. q.mu is held.
func (c *capture) take(s *stream, w *work) {
	c.clocks[s][s]++
	c.work = append(c.work, w)
}

// spoil ends in a failure of the capture, which gives result now.
func (c *capture) spoil(card *card, result gpu.Result, what string) error {
	c.spoiled = true
	return card.errorf(result, "%s; the capture is spoiled", what)
}

// admits tells whether work may be queued in a stream. q.mu is held.
func (q *queues) admits(c *card, s *stream) error {
	if s.capture != nil && s.capture.spoiled {
		return c.errorf(gpu.ErrorStreamCaptureInvalidated, "the capture of stream %#x is spoiled", uint64(s.number))
	}
	if s != c.legacy {
		return nil
	}
	var err error
	for other := range q.of(c) {
		if other.blocking && other.capture != nil {
			err = other.capture.spoil(c, gpu.ErrorStreamCaptureImplicit, "the legacy stream would wait for a stream that is captured")
		}
	}
	return err
}

// observes tells whether a stream's state may be asked for. q.mu is held.
func (q *queues) observes(c *card, s *stream) error {
	if err := q.admits(c, s); err != nil {
		return err
	}
	if s.capture != nil {
		return s.capture.spoil(c, gpu.ErrorStreamCaptureUnsupported, "the state of a captured stream was asked for")
	}
	return nil
}

// queueIn is withStream for what queues work.
func (m *Machine) queueIn(ordinal int, number gpu.Stream, queue func(*card, *stream) error) error {
	return m.withStream(ordinal, number, func(c *card, s *stream) error {
		if err := m.queues.admits(c, s); err != nil {
			return err
		}
		return queue(c, s)
	})
}

// StreamGetCaptureInfo tells the capture that a stream takes part in.
func (m *Machine) StreamGetCaptureInfo(ordinal int, number gpu.Stream) (id uint64, err error) {
	err = m.withStream(ordinal, number, func(c *card, s *stream) error {
		if s.capture != nil {
			id = s.capture.id
		}
		if s != c.legacy {
			return nil
		}
		for other := range m.queues.of(c) {
			if other.blocking && other.capture != nil {
				return c.errorf(gpu.ErrorStreamCaptureImplicit, "a blocking stream is captured")
			}
		}
		return nil
	})
	return id, err
}

// StreamGetCaptureLife gives the life of the graph that a stream is captured into.
func (m *Machine) StreamGetCaptureLife(ordinal int, number gpu.Stream) (of gpu.GraphLife, err error) {
	err = m.withStream(ordinal, number, func(c *card, s *stream) error {
		if s.capture == nil {
			return c.errorf(gpu.ErrorInvalidValue, "stream %#x is not captured", uint64(number))
		}
		of = s.capture.life
		return nil
	})
	return of, err
}

// StreamBeginCapture begins one, as other code of the process would on a GPU.
func (m *Machine) StreamBeginCapture(ordinal int, number gpu.Stream) error {
	return m.withStream(ordinal, number, func(c *card, s *stream) error {
		switch {
		case s == c.legacy:
			return c.errorf(gpu.ErrorStreamCaptureUnsupported, "the legacy stream can't be captured")
		case s.capture != nil:
			return c.errorf(gpu.ErrorInvalidValue, "stream %#x is captured already", uint64(number))
		}
		m.queues.lastID++
		s.capture = &capture{id: m.queues.lastID, origin: s, clocks: map[*stream]progress{s: {}}, life: &life{holds: 1}}
		return nil
	})
}

// StreamEndCapture ends one and gives the graph.
func (m *Machine) StreamEndCapture(ordinal int, number gpu.Stream) (graphNumber Graph, err error) {
	err = m.withStream(ordinal, number, func(c *card, s *stream) error {
		q, of := m.queues, s.capture
		switch {
		case of == nil:
			return c.errorf(gpu.ErrorInvalidValue, "stream %#x is not captured", uint64(number))
		case of.origin != s:
			return of.spoil(c, gpu.ErrorStreamCaptureUnmatched, "a capture ends in the stream that it began in")
		}
		unjoined := !of.joined()
		of.leave()
		switch {
		case of.spoiled:
			of.life.drop()
			return c.errorf(gpu.ErrorStreamCaptureInvalidated, "the capture was spoiled")
		case unjoined:
			of.life.drop()
			return c.errorf(gpu.ErrorStreamCaptureUnjoined, "a stream that took part is not waited for")
		}
		var index int
		q.graphs, index = put(q.graphs, &graph{card: c, work: of.work, life: of.life})
		graphNumber = firstGraph + Graph(index)
		return nil
	})
	return graphNumber, err
}

// joined tells whether the origin comes after all that was captured.
func (c *capture) joined() bool {
	for s, clock := range c.clocks {
		if s != c.origin && c.clocks[c.origin][s] < clock[s] {
			return false
		}
	}
	return true
}

func (c *capture) leave() {
	for s := range c.clocks {
		s.capture = nil
	}
}

// drop ends the capture that a stream takes part in, as the stream ends. q.mu is held.
func (q *queues) dropCapture(s *stream) {
	c := s.capture
	if c == nil {
		return
	}
	c.spoiled = true
	if c.origin == s {
		c.leave()
		c.life.drop()
		return
	}
	delete(c.clocks, s)
	s.capture = nil
}

// recordCaptured makes an event mark a place in a capture.
func (e *event) recordCaptured(s *stream) {
	e.mark, e.capture, e.at = nil, s.capture, maps.Clone(s.capture.clocks[s])
	if e.at[s] == 0 {
		e.at[s] = 0
	}
}

// waitCaptured is StreamWaitEvent where the event or the stream is in a capture. q.mu is held.
func (q *queues) waitCaptured(c *card, s *stream, e *event) error {
	switch {
	case e.capture == nil:
		return s.capture.spoil(c, gpu.ErrorStreamCaptureIsolation, "captured work would wait for work outside")
	case e.capture.clocks[e.capture.origin] == nil || e.capture.origin.capture != e.capture:
		return c.errorf(gpu.ErrorCapturedEvent, "the event was recorded in a capture that has ended")
	case s.capture != nil && s.capture != e.capture:
		s.capture.spoiled = true
		return e.capture.spoil(c, gpu.ErrorStreamCaptureMerge, "one capture would wait for another")
	case s == c.legacy:
		return e.capture.spoil(c, gpu.ErrorStreamCaptureImplicit, "the legacy stream would wait for captured work")
	}
	if s.capture == nil {
		s.capture = e.capture
		e.capture.clocks[s] = progress{s: 1}
	}
	mine := s.capture.clocks[s]
	for other, n := range e.at {
		mine[other] = max(mine[other], n)
	}
	return nil
}

// GraphInstantiate makes an executable.
func (m *Machine) GraphInstantiate(ordinal int, number Graph) (exec GraphExec, err error) {
	err = m.withCard(ordinal, func(c *card) error {
		g, err := findGraph(m.queues.graphs, c, uint64(number), firstGraph)
		if err != nil {
			return err
		}
		g.life.holds++
		var index int
		m.queues.execs, index = put(m.queues.execs, &graph{card: c, work: g.work, life: g.life})
		exec = firstExec + GraphExec(index)
		return nil
	})
	return exec, err
}

// GraphDestroy ends a graph.
func (m *Machine) GraphDestroy(ordinal int, number Graph) error {
	return m.withCard(ordinal, func(c *card) error {
		g, err := findGraph(m.queues.graphs, c, uint64(number), firstGraph)
		if err != nil {
			return err
		}
		m.queues.graphs[number-firstGraph] = nil
		g.life.drop()
		return nil
	})
}

// GraphExecDestroy ends an executable. What was launched of it is still done.
func (m *Machine) GraphExecDestroy(ordinal int, number GraphExec) error {
	return m.withCard(ordinal, func(c *card) error {
		g, err := findGraph(m.queues.execs, c, uint64(number), firstExec)
		if err != nil {
			return err
		}
		m.queues.execs[number-firstExec] = nil
		g.life.drop()
		return nil
	})
}

// GraphLaunch queues a graph's work as one piece. In a captured stream it would be a graph in a graph, which is not simulated.
func (m *Machine) GraphLaunch(ordinal int, number GraphExec, in gpu.Stream) error {
	return m.queueIn(ordinal, in, func(c *card, s *stream) error {
		g, err := findGraph(m.queues.execs, c, uint64(number), firstExec)
		if err != nil {
			return err
		}
		if s.capture != nil {
			return s.capture.spoil(c, gpu.ErrorStreamCaptureUnsupported, "a graph within a graph is not simulated")
		}
		g.life.holds++
		m.enqueue(s, &work{run: g.run, finished: g.life.drop})
		return nil
	})
}

func (g *graph) run() error {
	for _, w := range g.work {
		if w.run == nil {
			continue
		}
		if err := w.run(); err != nil {
			return err
		}
	}
	return nil
}

func findGraph(table []*graph, c *card, number, first uint64) (*graph, error) {
	if g := at(table, number, first); g != nil && g.card == c {
		return g, nil
	}
	return nil, handleError("graph", number)
}

// GraphNodes counts the pieces of work in a graph, events left out.
func (m *Machine) GraphNodes(ordinal int, number Graph) (nodes int, err error) {
	err = m.withCard(ordinal, func(c *card) error {
		g, err := findGraph(m.queues.graphs, c, uint64(number), firstGraph)
		if err == nil {
			nodes = len(g.work)
		}
		return err
	})
	return nodes, err
}

// ContextSynchronize waits for all streams.
func (m *Machine) ContextSynchronize(ordinal int) error {
	var last []*work
	err := m.withCard(ordinal, func(c *card) (err error) {
		for s := range m.queues.of(c) {
			if s.capture != nil {
				err = s.capture.spoil(c, gpu.ErrorStreamCaptureUnsupported, "all streams were to be waited for, captured ones included")
			} else if n := len(s.queue); n > 0 {
				last = append(last, s.queue[n-1])
			}
		}
		return err
	})
	for _, w := range last {
		if err == nil {
			err = m.await(w)
		}
	}
	return err
}

// withCard looks at a card's queues under the locks.
func (m *Machine) withCard(ordinal int, look func(*card) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, err := m.contextLocked(ordinal)
	if err != nil {
		return err
	}
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	return look(c)
}

// endGraphs ends a card's graphs with its context. q.mu is held.
func (q *queues) endGraphs(c *card) {
	for _, table := range []*[]*graph{&q.graphs, &q.execs} {
		for i, g := range slices.Clone(*table) {
			if g != nil && g.card == c {
				(*table)[i] = nil
				g.life.drop()
			}
		}
	}
}
