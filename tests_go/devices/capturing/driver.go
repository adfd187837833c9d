package capturing

import (
	"fmt"
	"sync"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/machine/drivertest"
)

// Driver is a driver whose streams can be captured. It passes on all other calls.
type Driver struct {
	gpu.Driver

	// never held during a call that may block. It guards the fields below, captures, graphs and lives
	mu          sync.Mutex
	retains     map[int]int
	nonBlocking map[place]bool
	captured    map[place]*capture
	marks       map[gpu.Event]*mark
	graphs      map[uint64]*graph
	execs       map[uint64]*graph
	last        uint64 // number of a capture, a graph or an executable
}

var (
	_ gpu.Driver          = (*Driver)(nil)
	_ drivertest.Capturer = (*Driver)(nil)
)

// New wraps a driver. Streams must be created through the wrapper, because it must know which ones are blocking.
func New(upstream gpu.Driver) *Driver {
	return &Driver{
		Driver: upstream, retains: map[int]int{}, nonBlocking: map[place]bool{}, captured: map[place]*capture{},
		marks: map[gpu.Event]*mark{}, graphs: map[uint64]*graph{}, execs: map[uint64]*graph{},
	}
}

// place is a stream of a device: the default streams of all devices have the same numbers.
type place struct {
	ordinal int
	stream  gpu.Stream
}

func at(ordinal int, stream gpu.Stream) place {
	if stream == gpu.StreamLegacy {
		stream = gpu.StreamNull
	}
	return place{ordinal, stream}
}

func (d *Driver) number() uint64 {
	d.last++
	return d.last
}

// ContextRetain counts, to recognize the last ContextRelease.
func (d *Driver) ContextRetain(ordinal int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.Driver.ContextRetain(ordinal)
	if err == nil {
		d.retains[ordinal]++
	}
	return err
}

// ContextRelease ends captures and graphs with their context.
func (d *Driver) ContextRelease(ordinal int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.Driver.ContextRelease(ordinal)
	if err != nil {
		return err
	}
	if d.retains[ordinal]--; d.retains[ordinal] == 0 {
		d.endContext(ordinal)
	}
	return nil
}

// Close ends everything.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ordinal := range d.retains {
		d.endContext(ordinal)
	}
	return d.Driver.Close()
}

func (d *Driver) endContext(ordinal int) {
	delete(d.retains, ordinal)
	for p := range d.nonBlocking {
		if p.ordinal == ordinal {
			delete(d.nonBlocking, p)
		}
	}
	for p := range d.captured {
		if p.ordinal == ordinal {
			d.leave(p)
		}
	}
	for event, m := range d.marks {
		if m.ordinal == ordinal {
			delete(d.marks, event)
		}
	}
	for _, table := range []map[uint64]*graph{d.graphs, d.execs} {
		for number, g := range table {
			if g.ordinal == ordinal {
				delete(table, number)
				g.life.holds--
				g.life.launches = nil
			}
		}
	}
}

// admits returns an error unless work may be queued in a stream, and the capture that records it, if any. mu is held.
func (d *Driver) admits(p place) (*capture, error) {
	if c := d.captured[p]; c != nil {
		if c.spoiled {
			return nil, fmt.Errorf("the capture of stream %#x is spoiled: %w", uint64(p.stream),
				gpu.ErrorStreamCaptureInvalidated)
		}
		return c, nil
	}
	if p.stream == gpu.StreamNull {
		for _, c := range d.blockingCaptures(p.ordinal) {
			_ = c.spoil(gpu.ErrorStreamCaptureImplicit, "")
		}
		return nil, d.implicit(p.ordinal)
	}
	return nil, nil
}

// implicit returns the error for using the legacy stream while a stream that it would wait for is being captured.
func (d *Driver) implicit(ordinal int) error {
	if len(d.blockingCaptures(ordinal)) > 0 {
		return fmt.Errorf("the legacy stream would wait for a captured stream: %w", gpu.ErrorStreamCaptureImplicit)
	}
	return nil
}

func (d *Driver) blockingCaptures(ordinal int) (captures []*capture) {
	for p, c := range d.captured {
		if p.ordinal == ordinal && !d.nonBlocking[p] {
			captures = append(captures, c)
		}
	}
	return captures
}

// observes returns an error unless the state of a stream may be queried.
func (d *Driver) observes(ordinal int, stream gpu.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.admits(at(ordinal, stream))
	if err == nil && c != nil {
		err = c.spoil(gpu.ErrorStreamCaptureUnsupported, "the state of a captured stream was queried")
	}
	return err
}

// queue makes a call that queues work, or records it in a capture.
func (d *Driver) queue(ordinal int, stream gpu.Stream, call func(gpu.Stream) error) error {
	recorded, err := d.record(at(ordinal, stream), call)
	if recorded || err != nil {
		return err
	}
	return call(stream)
}

func (d *Driver) record(p place, call func(gpu.Stream) error) (recorded bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.admits(p)
	if err != nil || c == nil {
		return false, err
	}
	c.clocks[p][p]++
	c.calls = append(c.calls, call)
	return true, nil
}
