package capturing

import (
	"fmt"

	"gpuconf/gocore/machine/gpu"
)

// StreamCreate records whether the legacy stream and the new one wait for each other.
func (d *Driver) StreamCreate(ordinal int, flags gpu.StreamFlags, priority int) (gpu.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	stream, err := d.Driver.StreamCreate(ordinal, flags, priority)
	if err == nil && flags&gpu.StreamNonBlocking != 0 {
		d.nonBlocking[at(ordinal, stream)] = true
	}
	return stream, err
}

// StreamDestroy ends the capture that the stream began.
func (d *Driver) StreamDestroy(ordinal int, stream gpu.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.Driver.StreamDestroy(ordinal, stream)
	if err == nil {
		d.leave(at(ordinal, stream))
		delete(d.nonBlocking, at(ordinal, stream))
	}
	return err
}

// StreamQuery invalidates a capture of the stream.
func (d *Driver) StreamQuery(ordinal int, stream gpu.Stream) (done bool, err error) {
	if err := d.observes(ordinal, stream); err != nil {
		return false, err
	}
	return d.Driver.StreamQuery(ordinal, stream)
}

// StreamSynchronize invalidates a capture of the stream.
func (d *Driver) StreamSynchronize(ordinal int, stream gpu.Stream) error {
	if err := d.observes(ordinal, stream); err != nil {
		return err
	}
	return d.Driver.StreamSynchronize(ordinal, stream)
}

// ContextSynchronize invalidates all captures of the device.
func (d *Driver) ContextSynchronize(ordinal int) error {
	if err := d.observesAll(ordinal); err != nil {
		return err
	}
	return d.Driver.ContextSynchronize(ordinal)
}

func (d *Driver) observesAll(ordinal int) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, c := range d.captured {
		if p.ordinal == ordinal {
			err = c.spoil(gpu.ErrorStreamCaptureUnsupported, "all streams were to be waited for, captured ones "+
				"included")
		}
	}
	return err
}

// EventDestroy forgets where the event was recorded.
func (d *Driver) EventDestroy(ordinal int, event gpu.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.Driver.EventDestroy(ordinal, event)
	if err == nil {
		delete(d.marks, event)
	}
	return err
}

// EventQuery invalidates the capture that the event was recorded in.
func (d *Driver) EventQuery(ordinal int, event gpu.Event) (done bool, err error) {
	if err := d.observesEvent(event); err != nil {
		return false, err
	}
	return d.Driver.EventQuery(ordinal, event)
}

// EventSynchronize invalidates the capture that the event was recorded in.
func (d *Driver) EventSynchronize(ordinal int, event gpu.Event) error {
	if err := d.observesEvent(event); err != nil {
		return err
	}
	return d.Driver.EventSynchronize(ordinal, event)
}

func (d *Driver) observesEvent(event gpu.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.marks[event]; m != nil {
		return m.capture.spoil(gpu.ErrorCapturedEvent, "the state of a captured event was queried")
	}
	return nil
}

// inLegacy makes a call that works in the legacy stream, if that may be used.
func (d *Driver) inLegacy(ordinal int, call func() error) error {
	d.mu.Lock()
	_, err := d.admits(place{ordinal, gpu.StreamNull})
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return call()
}

func (d *Driver) MemcpyHtoD(ordinal int, dst uint64, src []byte) error {
	return d.inLegacy(ordinal, func() error { return d.Driver.MemcpyHtoD(ordinal, dst, src) })
}

func (d *Driver) MemcpyDtoH(ordinal int, dst []byte, src uint64) error {
	return d.inLegacy(ordinal, func() error { return d.Driver.MemcpyDtoH(ordinal, dst, src) })
}

func (d *Driver) MemsetD8(ordinal int, dst uint64, value byte, bytes uint64) error {
	return d.inLegacy(ordinal, func() error { return d.Driver.MemsetD8(ordinal, dst, value, bytes) })
}

// The calls that follow queue work: it is passed on, or recorded.

func (d *Driver) MemcpyDtoHAsync(ordinal int, hostDst, src, bytes uint64, stream gpu.Stream) error {
	return d.queue(ordinal, stream,
		func(s gpu.Stream) error { return d.Driver.MemcpyDtoHAsync(ordinal, hostDst, src, bytes, s) })
}

func (d *Driver) MemcpyDtoDAsync(ordinal int, dst, src, bytes uint64, stream gpu.Stream) error {
	return d.queue(ordinal, stream,
		func(s gpu.Stream) error { return d.Driver.MemcpyDtoDAsync(ordinal, dst, src, bytes, s) })
}

func (d *Driver) MemsetD8Async(ordinal int, dst uint64, value byte, bytes uint64, stream gpu.Stream) error {
	return d.queue(ordinal, stream,
		func(s gpu.Stream) error { return d.Driver.MemsetD8Async(ordinal, dst, value, bytes, s) })
}

func (d *Driver) StreamWriteValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	return d.queue(ordinal, stream,
		func(s gpu.Stream) error { return d.Driver.StreamWriteValue64(ordinal, s, addr, value) })
}

// StreamWaitValue64 passes the call on; it cannot be captured.
func (d *Driver) StreamWaitValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	if err := d.admitsWait(at(ordinal, stream)); err != nil {
		return err
	}
	return d.Driver.StreamWaitValue64(ordinal, stream, addr, value)
}

func (d *Driver) admitsWait(p place) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.admits(p)
	if err != nil || c == nil {
		return err
	}
	return c.spoil(gpu.ErrorNotSupported, fmt.Sprintf("stream %#x would wait for a word", uint64(p.stream)))
}
