// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include <stdlib.h>
// #include "calls.h"
import "C"

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"gpuconf/gocore/machine/gpu"
)

// StreamCreate creates a stream.
func (d *driver) StreamCreate(ordinal int, flags gpu.StreamFlags, priority int) (gpu.Stream, error) {
	priority = max(math.MinInt32, min(priority, math.MaxInt32))
	return created(d, ordinal, "cuStreamCreateWithPriority on GPU %d",
		func(g *device) map[gpu.Stream]struct{} { return g.streams },
		func(context C.uint64_t) C.struct_cuda_answer {
			return C.cudacall_stream_create(d.machine, context, C.uint(flags), C.int(priority))
		})
}

// StreamDestroy destroys a stream from StreamCreate. Streams of other libraries are refused.
func (d *driver) StreamDestroy(ordinal int, stream gpu.Stream) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	return surrender(d, g.streams, stream, func() error {
		return fmt.Errorf("stream %#x on GPU %d was not created by gpuconf: %w", uint64(stream), ordinal,
			gpu.ErrorInvalidHandle)
	}, func() error {
		return d.failure(C.cudacall_stream_destroy(d.machine, C.uint64_t(g.context), C.uint64_t(stream)),
			"cuStreamDestroy on GPU %d", uint64(ordinal))
	})
}

// StreamGetID returns a stream's id.
func (d *driver) StreamGetID(ordinal int, stream gpu.Stream) (id uint64, err error) {
	answer, err := d.ask(ordinal, "cuStreamGetId on GPU %d", func(context C.uint64_t) C.struct_cuda_answer {
		return C.cudacall_stream_id(d.machine, context, C.uint64_t(stream))
	})
	return uint64(answer.value), err
}

// StreamGetPriority returns a stream's priority.
func (d *driver) StreamGetPriority(ordinal int, stream gpu.Stream) (priority int, err error) {
	answer, err := d.ask(ordinal, "cuStreamGetPriority on GPU %d", func(context C.uint64_t) C.struct_cuda_answer {
		return C.cudacall_stream_priority(d.machine, context, C.uint64_t(stream))
	})
	return int(int64(answer.value)), err
}

// StreamSynchronize waits for a stream. The thread blocks in the driver; other goroutines keep running.
func (d *driver) StreamSynchronize(ordinal int, stream gpu.Stream) error {
	return d.in(ordinal, "cuStreamSynchronize on GPU %d", func(context C.uint64_t) C.CUresult {
		return C.cudacall_stream_synchronize(d.machine, context, C.uint64_t(stream))
	})
}

// StreamQuery reports whether a stream is done.
func (d *driver) StreamQuery(ordinal int, stream gpu.Stream) (done bool, err error) {
	return d.isDone(ordinal, "cuStreamQuery on GPU %d", func(context C.uint64_t) C.CUresult {
		return C.cudacall_stream_query(d.machine, context, C.uint64_t(stream))
	})
}

// isDone makes a query, of which not ready is no failure.
func (d *driver) isDone(ordinal int, what string, query func(context C.uint64_t) C.CUresult) (done bool, err error) {
	done = true
	err = d.in(ordinal, what, func(context C.uint64_t) C.CUresult {
		result := query(context)
		if gpu.Result(result) == gpu.ErrorNotReady {
			done, result = false, 0
		}
		return result
	})
	return done && err == nil, err
}

// StreamWaitEvent makes a stream wait for an event.
func (d *driver) StreamWaitEvent(ordinal int, stream gpu.Stream, event gpu.Event) error {
	return d.in(ordinal, "cuStreamWaitEvent on GPU %d", func(context C.uint64_t) C.CUresult {
		return C.cudacall_stream_wait_event(d.machine, context, C.uint64_t(stream), C.uint64_t(event))
	})
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

// onWord makes a call about such a word.
func (d *driver) onWord(ordinal int, addr uint64, what string, call func(context C.uint64_t) C.CUresult) error {
	g, err := d.word(ordinal, addr)
	if err != nil {
		return err
	}
	defer d.leave(g)
	return d.failure(call(C.uint64_t(g.context)), what, addr, uint64(ordinal))
}

// StreamWriteValue64 queues the write of a word.
func (d *driver) StreamWriteValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	return d.onWord(ordinal, addr, "cuStreamWriteValue64 at %#x on GPU %d", func(context C.uint64_t) C.CUresult {
		return C.cudacall_stream_write(d.machine, context, C.uint64_t(stream), C.uint64_t(addr), C.uint64_t(value))
	})
}

// StreamWaitValue64 makes a stream wait for a word.
func (d *driver) StreamWaitValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	return d.onWord(ordinal, addr, "cuStreamWaitValue64 at %#x on GPU %d", func(context C.uint64_t) C.CUresult {
		return C.cudacall_stream_wait(d.machine, context, C.uint64_t(stream), C.uint64_t(addr), C.uint64_t(value))
	})
}

// EventCreate creates an event.
func (d *driver) EventCreate(ordinal int) (gpu.Event, error) {
	return created(d, ordinal, "cuEventCreate on GPU %d",
		func(g *device) map[gpu.Event]struct{} { return g.events },
		func(context C.uint64_t) C.struct_cuda_answer { return C.cudacall_event_create(d.machine, context) })
}

// EventDestroy destroys an event from EventCreate.
func (d *driver) EventDestroy(ordinal int, event gpu.Event) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	return surrender(d, g.events, event, func() error {
		return fmt.Errorf("unknown event %#x on GPU %d: %w", uint64(event), ordinal, gpu.ErrorInvalidHandle)
	}, func() error {
		return d.failure(C.cudacall_event_destroy(d.machine, C.uint64_t(g.context), C.uint64_t(event)),
			"cuEventDestroy on GPU %d", uint64(ordinal))
	})
}

// EventRecord makes an event mark the work queued in a stream.
func (d *driver) EventRecord(ordinal int, event gpu.Event, stream gpu.Stream) error {
	return d.in(ordinal, "cuEventRecord on GPU %d", func(context C.uint64_t) C.CUresult {
		return C.cudacall_event_record(d.machine, context, C.uint64_t(event), C.uint64_t(stream))
	})
}

// EventSynchronize waits for an event.
func (d *driver) EventSynchronize(ordinal int, event gpu.Event) error {
	return d.in(ordinal, "cuEventSynchronize on GPU %d", func(context C.uint64_t) C.CUresult {
		return C.cudacall_event_synchronize(d.machine, context, C.uint64_t(event))
	})
}

// EventQuery reports whether the work that an event marks is done.
func (d *driver) EventQuery(ordinal int, event gpu.Event) (done bool, err error) {
	return d.isDone(ordinal, "cuEventQuery on GPU %d", func(context C.uint64_t) C.CUresult {
		return C.cudacall_event_query(d.machine, context, C.uint64_t(event))
	})
}

// ContextSynchronize waits for a device.
func (d *driver) ContextSynchronize(ordinal int) error {
	return d.in(ordinal, "cuCtxSynchronize on GPU %d", func(context C.uint64_t) C.CUresult {
		return C.cudacall_context_synchronize(d.machine, context)
	})
}

// StreamGetCaptureInfo returns the capture that a stream is in.
func (d *driver) StreamGetCaptureInfo(ordinal int, stream gpu.Stream) (capture uint64, err error) {
	answer, err := d.ask(ordinal, "cuStreamGetCaptureInfo on GPU %d", func(context C.uint64_t) C.struct_cuda_answer {
		return C.cudacall_capture_info(d.machine, context, C.uint64_t(stream))
	})
	return uint64(answer.value), err
}

// CaptureInfoFunction returns the address of the driver's cuStreamGetCaptureInfo.
func (d *driver) CaptureInfoFunction() uintptr { return uintptr(C.cudacall_capture_info_function()) }

// StreamGetCaptureLife attaches a user object to the captured graph, which reports when the graph's lifetime ends.
func (d *driver) StreamGetCaptureLife(ordinal int, stream gpu.Stream) (gpu.CaptureLife, error) {
	life := &captureLife{}
	err := d.in(ordinal, "the life of a graph on GPU %d", func(context C.uint64_t) C.CUresult {
		answer := C.cudacall_capture_life(d.machine, context, C.uint64_t(stream))
		life.word = answer.memory
		return answer.result
	})
	if err != nil {
		return nil, err
	}
	return life, nil
}

// captureLife is a word of C memory that the driver writes once. The first caller that sees it written frees it.
type captureLife struct {
	mu   sync.Mutex
	word unsafe.Pointer // nil once it was seen written
}

// Ended reports whether the word was written.
func (l *captureLife) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.word != nil && atomic.LoadInt32((*int32)(l.word)) != 0 {
		C.free(l.word)
		l.word = nil
	}
	return l.word == nil
}
