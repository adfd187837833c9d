package capturing

import (
	"fmt"

	"gpuconf/gocore/machine/gpu"
)

// graph is what a capture has recorded, or an executable created from it.
type graph struct {
	ordinal int
	calls   []func(gpu.Stream) error
	life    *life
}

// life counts what keeps a graph alive: the capture or the graph itself, executables, and unfinished launches.
type life struct {
	d        *Driver
	holds    int
	launches []launch
}

// launch is an event after the work of a launch.
type launch struct {
	ordinal int
	event   gpu.Event
}

// Ended reports whether nothing is left.
func (l *life) Ended() bool {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	for len(l.launches) > 0 {
		first := l.launches[0]
		if done, err := l.d.Driver.EventQuery(first.ordinal, first.event); err == nil && !done {
			return false
		}
		_ = l.d.Driver.EventDestroy(first.ordinal, first.event)
		l.launches = l.launches[1:]
	}
	return l.holds == 0
}

func find(table map[uint64]*graph, ordinal int, number uint64) (*graph, error) {
	if g := table[number]; g != nil && g.ordinal == ordinal {
		return g, nil
	}
	return nil, fmt.Errorf("there is no graph %d on GPU %d: %w", number, ordinal, gpu.ErrorInvalidHandle)
}

// GraphPieces counts the pieces of work in a graph, without events.
func (d *Driver) GraphPieces(ordinal int, number uint64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := find(d.graphs, ordinal, number)
	if err != nil {
		return -1
	}
	return len(g.calls)
}

// Instantiate creates an executable from a graph.
func (d *Driver) Instantiate(ordinal int, number uint64) (exec uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := find(d.graphs, ordinal, number)
	if err != nil {
		return 0, err
	}
	g.life.holds++
	exec = d.number()
	d.execs[exec] = &graph{ordinal: ordinal, calls: g.calls, life: g.life}
	return exec, nil
}

// Launch repeats the recorded calls.
func (d *Driver) Launch(ordinal int, exec uint64, stream gpu.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.admits(at(ordinal, stream))
	if err != nil {
		return err
	}
	g, err := find(d.execs, ordinal, exec)
	if err != nil {
		return err
	}
	if c != nil {
		return c.spoil(gpu.ErrorStreamCaptureUnsupported, "a graph would be captured within a graph")
	}
	for _, call := range g.calls {
		if err := call(stream); err != nil {
			return err
		}
	}
	event, err := d.Driver.EventCreate(ordinal)
	if err != nil {
		return err
	}
	g.life.launches = append(g.life.launches, launch{ordinal, event})
	return d.Driver.EventRecord(ordinal, event, stream)
}

// DestroyGraph ends a graph.
func (d *Driver) DestroyGraph(ordinal int, number uint64) error {
	return d.destroy(d.graphs, ordinal, number)
}

// DestroyExec ends an executable. Work already launched still runs.
func (d *Driver) DestroyExec(ordinal int, number uint64) error {
	return d.destroy(d.execs, ordinal, number)
}

func (d *Driver) destroy(table map[uint64]*graph, ordinal int, number uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := find(table, ordinal, number)
	if err != nil {
		return err
	}
	delete(table, number)
	g.life.holds--
	return nil
}
