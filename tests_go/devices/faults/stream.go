package faults

import "gpuconf/gocore/machine/gpu"

// StreamCreate passes the call on.
func (i *Injector) StreamCreate(ordinal int, flags gpu.StreamFlags, priority int) (gpu.Stream, error) {
	if err := i.before("StreamCreate", ordinal, 0); err != nil {
		return 0, err
	}
	return i.upstream.StreamCreate(ordinal, flags, priority)
}

// StreamDestroy passes the call on.
func (i *Injector) StreamDestroy(ordinal int, stream gpu.Stream) error {
	if err := i.before("StreamDestroy", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.StreamDestroy(ordinal, stream)
}

// StreamGetID passes the call on.
func (i *Injector) StreamGetID(ordinal int, stream gpu.Stream) (id uint64, err error) {
	if err := i.before("StreamGetID", ordinal, 0); err != nil {
		return 0, err
	}
	return i.upstream.StreamGetID(ordinal, stream)
}

// StreamGetPriority passes the call on.
func (i *Injector) StreamGetPriority(ordinal int, stream gpu.Stream) (priority int, err error) {
	if err := i.before("StreamGetPriority", ordinal, 0); err != nil {
		return 0, err
	}
	return i.upstream.StreamGetPriority(ordinal, stream)
}

// StreamSynchronize passes the call on.
func (i *Injector) StreamSynchronize(ordinal int, stream gpu.Stream) error {
	if err := i.before("StreamSynchronize", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.StreamSynchronize(ordinal, stream)
}

// StreamQuery passes the call on.
func (i *Injector) StreamQuery(ordinal int, stream gpu.Stream) (done bool, err error) {
	if err := i.before("StreamQuery", ordinal, 0); err != nil {
		return false, err
	}
	return i.upstream.StreamQuery(ordinal, stream)
}

// StreamWaitEvent passes the call on.
func (i *Injector) StreamWaitEvent(ordinal int, stream gpu.Stream, event gpu.Event) error {
	if err := i.before("StreamWaitEvent", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.StreamWaitEvent(ordinal, stream, event)
}

// EventCreate passes the call on.
func (i *Injector) EventCreate(ordinal int) (gpu.Event, error) {
	if err := i.before("EventCreate", ordinal, 0); err != nil {
		return 0, err
	}
	return i.upstream.EventCreate(ordinal)
}

// EventDestroy passes the call on.
func (i *Injector) EventDestroy(ordinal int, event gpu.Event) error {
	if err := i.before("EventDestroy", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.EventDestroy(ordinal, event)
}

// EventRecord passes the call on.
func (i *Injector) EventRecord(ordinal int, event gpu.Event, stream gpu.Stream) error {
	if err := i.before("EventRecord", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.EventRecord(ordinal, event, stream)
}

// EventSynchronize passes the call on.
func (i *Injector) EventSynchronize(ordinal int, event gpu.Event) error {
	if err := i.before("EventSynchronize", ordinal, 0); err != nil {
		return err
	}
	return i.upstream.EventSynchronize(ordinal, event)
}

// EventQuery passes the call on.
func (i *Injector) EventQuery(ordinal int, event gpu.Event) (done bool, err error) {
	if err := i.before("EventQuery", ordinal, 0); err != nil {
		return false, err
	}
	return i.upstream.EventQuery(ordinal, event)
}

// StreamWriteValue64 passes the call on.
func (i *Injector) StreamWriteValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	if err := i.before("StreamWriteValue64", ordinal, 8); err != nil {
		return err
	}
	return i.upstream.StreamWriteValue64(ordinal, stream, addr, value)
}

// StreamWaitValue64 passes the call on.
func (i *Injector) StreamWaitValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	if err := i.before("StreamWaitValue64", ordinal, 8); err != nil {
		return err
	}
	return i.upstream.StreamWaitValue64(ordinal, stream, addr, value)
}

// MemcpyHtoDAsync passes the call on.
func (i *Injector) MemcpyHtoDAsync(ordinal int, dst, hostSrc, bytes uint64, stream gpu.Stream) error {
	if err := i.before("MemcpyHtoDAsync", ordinal, bytes); err != nil {
		return err
	}
	return i.upstream.MemcpyHtoDAsync(ordinal, dst, hostSrc, bytes, stream)
}

// MemcpyDtoHAsync passes the call on.
func (i *Injector) MemcpyDtoHAsync(ordinal int, hostDst, src, bytes uint64, stream gpu.Stream) error {
	if err := i.before("MemcpyDtoHAsync", ordinal, bytes); err != nil {
		return err
	}
	return i.upstream.MemcpyDtoHAsync(ordinal, hostDst, src, bytes, stream)
}

// MemcpyDtoDAsync passes the call on.
func (i *Injector) MemcpyDtoDAsync(ordinal int, dst, src, bytes uint64, stream gpu.Stream) error {
	if err := i.before("MemcpyDtoDAsync", ordinal, bytes); err != nil {
		return err
	}
	return i.upstream.MemcpyDtoDAsync(ordinal, dst, src, bytes, stream)
}

// MemsetD8Async passes the call on.
func (i *Injector) MemsetD8Async(ordinal int, dst uint64, value byte, bytes uint64, stream gpu.Stream) error {
	if err := i.before("MemsetD8Async", ordinal, bytes); err != nil {
		return err
	}
	return i.upstream.MemsetD8Async(ordinal, dst, value, bytes, stream)
}
