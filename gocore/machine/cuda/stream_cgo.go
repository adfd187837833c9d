// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "calls.h"
import "C"

import (
	"fmt"
	"math"

	"gpuconf/gocore/machine/gpu"
)

// StreamCreate creates a stream.
func (d *driver) StreamCreate(ordinal int, flags gpu.StreamFlags, priority int) (gpu.Stream, error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return 0, err
	}
	defer d.leave(g)
	priority = max(math.MinInt32, min(priority, math.MaxInt32))
	answer := C.cudacall_stream_create(d.machine, C.uint64_t(g.context), C.uint(flags), C.int(priority))
	if err := d.failure(answer.result, "cuStreamCreateWithPriority on GPU %d", uint64(ordinal)); err != nil {
		return 0, err
	}
	stream := gpu.Stream(answer.value)
	d.mu.Lock()
	defer d.mu.Unlock()
	g.streams[stream] = struct{}{}
	return stream, nil
}

// StreamDestroy destroys a stream from StreamCreate. Streams of other libraries are refused.
func (d *driver) StreamDestroy(ordinal int, stream gpu.Stream) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	d.mu.Lock()
	_, ok := g.streams[stream]
	delete(g.streams, stream)
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf("stream %#x on GPU %d was not created by gpuconf: %w", uint64(stream), ordinal,
			gpu.ErrorInvalidHandle)
	}
	err = d.failure(C.cudacall_stream_destroy(d.machine, C.uint64_t(g.context), C.uint64_t(stream)),
		"cuStreamDestroy on GPU %d", uint64(ordinal))
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		g.streams[stream] = struct{}{}
	}
	return err
}

// StreamGetID returns a stream's id.
func (d *driver) StreamGetID(ordinal int, stream gpu.Stream) (id uint64, err error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return 0, err
	}
	defer d.leave(g)
	answer := C.cudacall_stream_id(d.machine, C.uint64_t(g.context), C.uint64_t(stream))
	return uint64(answer.value), d.failure(answer.result, "cuStreamGetId on GPU %d", uint64(ordinal))
}

// StreamGetPriority returns a stream's priority.
func (d *driver) StreamGetPriority(ordinal int, stream gpu.Stream) (priority int, err error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return 0, err
	}
	defer d.leave(g)
	answer := C.cudacall_stream_priority(d.machine, C.uint64_t(g.context), C.uint64_t(stream))
	return int(int64(answer.value)), d.failure(answer.result, "cuStreamGetPriority on GPU %d", uint64(ordinal))
}

// StreamSynchronize waits for a stream. The thread blocks in the driver; other goroutines keep running.
func (d *driver) StreamSynchronize(ordinal int, stream gpu.Stream) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	return d.failure(C.cudacall_stream_synchronize(d.machine, C.uint64_t(g.context), C.uint64_t(stream)),
		"cuStreamSynchronize on GPU %d", uint64(ordinal))
}

// StreamQuery reports whether a stream is done.
func (d *driver) StreamQuery(ordinal int, stream gpu.Stream) (done bool, err error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return false, err
	}
	defer d.leave(g)
	return d.ready(C.cudacall_stream_query(d.machine, C.uint64_t(g.context), C.uint64_t(stream)),
		"cuStreamQuery on GPU %d", uint64(ordinal))
}

// ready converts a query's result.
func (d *driver) ready(result C.CUresult, what string, numbers ...uint64) (done bool, err error) {
	if gpu.Result(result) == gpu.ErrorNotReady {
		return false, nil
	}
	return result == 0, d.failure(result, what, numbers...)
}

// StreamWaitEvent makes a stream wait for an event.
func (d *driver) StreamWaitEvent(ordinal int, stream gpu.Stream, event gpu.Event) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	result := C.cudacall_stream_wait_event(d.machine, C.uint64_t(g.context), C.uint64_t(stream), C.uint64_t(event))
	return d.failure(result, "cuStreamWaitEvent on GPU %d", uint64(ordinal))
}

// word starts a call with a word that a stream writes or waits for, like enter.
func (d *driver) word(ordinal int, addr uint64) (*device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.contextLocked(ordinal)
	switch {
	case err != nil:
		return nil, err
	case !g.info.StreamMemOps:
		return nil, d.noStreamMemOps(g)
	case addr%8 != 0:
		return nil, fmt.Errorf("word address %#x is not a multiple of 8: %w", addr, gpu.ErrorInvalidValue)
	case !g.reach.holds(addr, 8) && !d.onHostLocked(addr, 8):
		return nil, fmt.Errorf("%w (nor in page-locked memory)", notReachable(g, addr, 8))
	}
	g.inside++
	return g, nil
}

// StreamWriteValue64 queues the write of a word.
func (d *driver) StreamWriteValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	g, err := d.word(ordinal, addr)
	if err != nil {
		return err
	}
	defer d.leave(g)
	result := C.cudacall_stream_write(d.machine, C.uint64_t(g.context), C.uint64_t(stream), C.uint64_t(addr),
		C.uint64_t(value))
	return d.failure(result, "cuStreamWriteValue64 at %#x on GPU %d", addr, uint64(ordinal))
}

// StreamWaitValue64 makes a stream wait for a word.
func (d *driver) StreamWaitValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	g, err := d.word(ordinal, addr)
	if err != nil {
		return err
	}
	defer d.leave(g)
	result := C.cudacall_stream_wait(d.machine, C.uint64_t(g.context), C.uint64_t(stream), C.uint64_t(addr),
		C.uint64_t(value))
	return d.failure(result, "cuStreamWaitValue64 at %#x on GPU %d", addr, uint64(ordinal))
}
