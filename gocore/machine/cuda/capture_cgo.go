// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include <stdlib.h>
// #include "calls.h"
import "C"

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"gpuconf/gocore/machine/gpu"
)

// ContextSynchronize waits for a device.
func (d *driver) ContextSynchronize(ordinal int) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	return d.failure(C.cudacall_context_synchronize(d.machine, C.uint64_t(g.context)), "cuCtxSynchronize on GPU %d",
		uint64(ordinal))
}

// StreamGetCaptureInfo returns the capture that a stream is in.
func (d *driver) StreamGetCaptureInfo(ordinal int, stream gpu.Stream) (capture uint64, err error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return 0, err
	}
	defer d.leave(g)
	answer := C.cudacall_capture_info(d.machine, C.uint64_t(g.context), C.uint64_t(stream))
	if err := d.failure(answer.result, "cuStreamGetCaptureInfo on GPU %d", uint64(ordinal)); err != nil {
		return 0, err
	}
	return uint64(answer.value), nil
}

// CaptureInfoFunction returns the address of the driver's cuStreamGetCaptureInfo.
func (d *driver) CaptureInfoFunction() uintptr { return uintptr(C.cudacall_capture_info_function()) }

// StreamGetCaptureLife attaches a user object to the captured graph, which reports when the graph's lifetime ends.
func (d *driver) StreamGetCaptureLife(ordinal int, stream gpu.Stream) (gpu.CaptureLife, error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return nil, err
	}
	defer d.leave(g)
	answer := C.cudacall_capture_life(d.machine, C.uint64_t(g.context), C.uint64_t(stream))
	if err := d.failure(answer.result, "the life of a graph on GPU %d", uint64(ordinal)); err != nil {
		return nil, err
	}
	return &captureLife{word: answer.memory}, nil
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
