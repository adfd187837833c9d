package capturing

import (
	"fmt"
	"maps"

	"gpuconf/gocore/machine/gpu"
)

// capture is a graph that is being recorded.
type capture struct {
	id      uint64
	origin  place
	clocks  map[place]progress // by participating stream: what its next work comes after
	calls   []func(gpu.Stream) error
	life    *life
	spoiled bool
	over    bool
}

// progress counts, for each stream of a capture, the work that precedes a place in it. Joining a capture counts as
// work.
type progress map[place]int

// mark is a place in a capture where an event was recorded.
type mark struct {
	ordinal int
	capture *capture
	after   progress
}

// spoil invalidates a capture, so that its end fails, and returns the error of the call that invalidated it.
func (c *capture) spoil(result gpu.Result, what string) error {
	c.spoiled = true
	return fmt.Errorf("%s; the capture is spoiled: %w", what, result)
}

// StreamGetCaptureInfo returns the number of a stream's capture.
func (d *Driver) StreamGetCaptureInfo(ordinal int, stream gpu.Stream) (uint64, error) {
	if _, err := d.Driver.StreamGetCaptureInfo(ordinal, stream); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := at(ordinal, stream)
	if c := d.captured[p]; c != nil {
		return c.id, nil
	}
	if p.stream == gpu.StreamNull {
		return 0, d.implicit(ordinal)
	}
	return 0, nil
}

// StreamGetID refuses a captured stream, and invalidates its capture.
func (d *Driver) StreamGetID(ordinal int, stream gpu.Stream) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.captured[at(ordinal, stream)]; c != nil {
		return 0, c.spoil(gpu.ErrorStreamCaptureUnsupported, "a captured stream's id can't be queried")
	}
	return d.Driver.StreamGetID(ordinal, stream)
}

// StreamGetCaptureLife returns the life of the graph that a stream is captured into.
func (d *Driver) StreamGetCaptureLife(ordinal int, stream gpu.Stream) (gpu.CaptureLife, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.captured[at(ordinal, stream)]; c != nil {
		return c.life, nil
	}
	return d.Driver.StreamGetCaptureLife(ordinal, stream)
}

// BeginCapture starts to capture a stream.
func (d *Driver) BeginCapture(ordinal int, stream gpu.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.Driver.StreamGetCaptureInfo(ordinal, stream); err != nil {
		return err
	}
	p := at(ordinal, stream)
	switch {
	case p.stream == gpu.StreamNull:
		return fmt.Errorf("the legacy stream can't be captured: %w", gpu.ErrorStreamCaptureUnsupported)
	case d.captured[p] != nil:
		return fmt.Errorf("stream %#x is captured already: %w", uint64(stream), gpu.ErrorInvalidValue)
	}
	d.captured[p] = &capture{id: d.number(), origin: p, clocks: map[place]progress{p: {p: 1}},
		life: &life{d: d, holds: 1}}
	return nil
}

// EndCapture ends a capture and returns its graph.
func (d *Driver) EndCapture(ordinal int, stream gpu.Stream) (number uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := at(ordinal, stream)
	c := d.captured[p]
	switch {
	case c == nil:
		return 0, fmt.Errorf("stream %#x is not captured: %w", uint64(stream), gpu.ErrorInvalidValue)
	case c.origin != p:
		return 0, c.spoil(gpu.ErrorStreamCaptureUnmatched, "a capture ends in the stream that it began in")
	}
	spoiled, joined := c.spoiled, c.joined()
	if spoiled || !joined {
		d.leave(p)
	} else {
		d.end(c)
	}
	switch {
	case spoiled:
		return 0, fmt.Errorf("the capture was spoiled: %w", gpu.ErrorStreamCaptureInvalidated)
	case !joined:
		return 0, fmt.Errorf("a stream that took part is not waited for: %w", gpu.ErrorStreamCaptureUnjoined)
	}
	number = d.number()
	d.graphs[number] = &graph{ordinal: ordinal, calls: c.calls, life: c.life}
	return number, nil
}

// joined reports whether the origin comes after everything that was captured.
func (c *capture) joined() bool {
	for p, clock := range c.clocks {
		if c.clocks[c.origin][p] < clock[p] {
			return false
		}
	}
	return true
}

// end removes all streams from a capture.
func (d *Driver) end(c *capture) {
	c.over = true
	for p := range c.clocks {
		delete(d.captured, p)
	}
}

// leave removes a stream from its capture and invalidates the capture.
func (d *Driver) leave(p place) {
	c := d.captured[p]
	if c == nil {
		return
	}
	c.spoiled = true
	if c.origin == p {
		d.end(c)
		c.life.holds--
		return
	}
	delete(c.clocks, p)
	delete(d.captured, p)
}

// EventRecord marks a place in the capture if the stream is being captured.
func (d *Driver) EventRecord(ordinal int, event gpu.Event, stream gpu.Stream) error {
	recorded, err := d.recordMark(ordinal, event, at(ordinal, stream))
	if recorded || err != nil {
		return err
	}
	return d.Driver.EventRecord(ordinal, event, stream)
}

func (d *Driver) recordMark(ordinal int, event gpu.Event, p place) (recorded bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.admits(p)
	if err != nil {
		return false, err
	}
	if c == nil {
		delete(d.marks, event)
		return false, nil
	}
	if _, err := d.Driver.EventQuery(ordinal, event); err != nil {
		return false, err
	}
	d.marks[event] = &mark{ordinal: ordinal, capture: c, after: maps.Clone(c.clocks[p])}
	return true, nil
}

// StreamWaitEvent adds a stream to the capture that the event was recorded in, if any.
func (d *Driver) StreamWaitEvent(ordinal int, stream gpu.Stream, event gpu.Event) error {
	captured, err := d.join(at(ordinal, stream), event)
	if captured || err != nil {
		return err
	}
	return d.Driver.StreamWaitEvent(ordinal, stream, event)
}

func (d *Driver) join(p place, event gpu.Event) (captured bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	mine, err := d.admits(p)
	m := d.marks[event]
	switch {
	case err != nil:
		return false, err
	case mine == nil && m == nil:
		return false, nil
	case m == nil:
		return false, mine.spoil(gpu.ErrorStreamCaptureIsolation, "captured work would wait for work outside")
	case m.capture.over:
		return false, fmt.Errorf("the event was recorded in a capture that has ended: %w", gpu.ErrorCapturedEvent)
	case mine != nil && mine != m.capture:
		mine.spoiled = true
		return false, m.capture.spoil(gpu.ErrorStreamCaptureMerge, "one capture would wait for another")
	case p.stream == gpu.StreamNull:
		return false, m.capture.spoil(gpu.ErrorStreamCaptureImplicit, "the legacy stream would wait for captured work")
	}
	if mine == nil {
		d.captured[p] = m.capture
		m.capture.clocks[p] = progress{p: 1}
	}
	clock := m.capture.clocks[p]
	for other, n := range m.after {
		clock[other] = max(clock[other], n)
	}
	return true, nil
}
