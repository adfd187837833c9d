// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "calls.h"
import "C"

import (
	"fmt"

	"gpuconf/gocore/machine/gpu"
)

// EventCreate creates an event.
func (d *driver) EventCreate(ordinal int) (gpu.Event, error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return 0, err
	}
	defer d.leave(g)
	answer := C.cudacall_event_create(d.machine, C.uint64_t(g.context))
	if err := d.failure(answer.result, "cuEventCreate on GPU %d", uint64(ordinal)); err != nil {
		return 0, err
	}
	event := gpu.Event(answer.value)
	d.mu.Lock()
	defer d.mu.Unlock()
	g.events[event] = struct{}{}
	return event, nil
}

// EventDestroy destroys an event from EventCreate.
func (d *driver) EventDestroy(ordinal int, event gpu.Event) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	d.mu.Lock()
	_, ok := g.events[event]
	delete(g.events, event)
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf("unknown event %#x on GPU %d: %w", uint64(event), ordinal, gpu.ErrorInvalidHandle)
	}
	err = d.failure(C.cudacall_event_destroy(d.machine, C.uint64_t(g.context), C.uint64_t(event)),
		"cuEventDestroy on GPU %d", uint64(ordinal))
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		g.events[event] = struct{}{}
	}
	return err
}

// EventRecord makes an event mark the work queued in a stream.
func (d *driver) EventRecord(ordinal int, event gpu.Event, stream gpu.Stream) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	result := C.cudacall_event_record(d.machine, C.uint64_t(g.context), C.uint64_t(event), C.uint64_t(stream))
	return d.failure(result, "cuEventRecord on GPU %d", uint64(ordinal))
}

// EventSynchronize waits for an event.
func (d *driver) EventSynchronize(ordinal int, event gpu.Event) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	return d.failure(C.cudacall_event_synchronize(d.machine, C.uint64_t(g.context), C.uint64_t(event)),
		"cuEventSynchronize on GPU %d", uint64(ordinal))
}

// EventQuery reports whether the work that an event marks is done.
func (d *driver) EventQuery(ordinal int, event gpu.Event) (done bool, err error) {
	g, err := d.enter(ordinal)
	if err != nil {
		return false, err
	}
	defer d.leave(g)
	return d.ready(C.cudacall_event_query(d.machine, C.uint64_t(g.context), C.uint64_t(event)),
		"cuEventQuery on GPU %d", uint64(ordinal))
}
