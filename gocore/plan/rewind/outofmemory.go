// SPDX-License-Identifier: Apache-2.0

package rewind

import (
	"context"
	"errors"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
)

// OutOfMemory is the state of a GPU when an allocation failed, after which nothing was allocated. Sizes are bytes.
type OutOfMemory struct {
	GPU        int              `json:"gpu"`         // the GPU's number
	Event      int              `json:"event"`       // the number of the failed allocation in the recording, from 1
	Requested  uint64           `json:"requested"`   // the size of the request
	Segment    uint64           `json:"segment"`     // the size of the segment that PyTorch requested from the GPU
	Stack      uint32           `json:"stack"`       // the recording's number of the calls that led to the request
	DeviceFree uint64           `json:"device_free"` // the free memory of the GPU, as the driver reported it
	Segments   []RewoundSegment `json:"segments"`    // in the order of their addresses; nil if they are not known
	Unknown    string           `json:"unknown"`     // why Segments are not known; "": they are
}

// RewoundSegment is memory that the allocator held.
type RewoundSegment struct {
	Addr       uint64         `json:"address"`    // the address of the first byte
	Bytes      uint64         `json:"nbytes"`     // the size; of an expandable segment, that of its mapped memory
	Stream     uint64         `json:"stream"`     // the stream that its blocks are for
	Small      bool           `json:"small"`      // whether it is for blocks of at most 1 MiB
	Expandable bool           `json:"expandable"` // whether memory is mapped into it piece by piece
	Pool       [2]uint64      `json:"pool"`       // 0, 0: the default pool
	Blocks     []RewoundBlock `json:"blocks"`     // in the order of their addresses, without unmapped ones
}

// RewoundBlock is a block, or free memory.
type RewoundBlock struct {
	Addr      uint64 `json:"address"`   // the address of the first byte
	Bytes     uint64 `json:"nbytes"`    // the size
	Requested uint64 `json:"requested"` // the size that the program requested; 0 if free
	Waiting   bool   `json:"waiting"`   // freed, but another stream may still use it
	Holder    uint32 `json:"holder"`    // the recording's number of who holds it
	Stack     uint32 `json:"stack"`     // the recording's number of the calls that allocated it
	Before    bool   `json:"before"`    // allocated before the record began, and nothing else is known
}

// OutOfMemories returns the state of each GPU on which the record ends with a failed allocation. recording is the same
// snapshot. It fails only with the context's error.
func OutOfMemories(ctx context.Context, history *trace.History, recording *trace.Recording) (
	list []*OutOfMemory, err error) {
	settings := SettingsOf(history.Settings)
	final := trace.FinalFailures(recording.Events)
	for number, gpu := range history.GPUs {
		event := final[number]
		if event == 0 {
			continue
		}
		failed := recording.Events[event-1]
		failure := &OutOfMemory{GPU: number, Event: event - trace.CountHidden(recording.Events[:event]),
			Requested: failed.Bytes, Stack: failed.Stack, DeviceFree: gpu.FreeAtFailure,
			Segment: settings.SegmentFor(failed.Bytes)}
		switch segments, err := segmentsAt(ctx, gpu, &settings, recording.Events[:event]); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			failure.Unknown = err.Error()
		default:
			failure.Segments = segments
		}
		list = append(list, failure)
	}
	return list, nil
}

// segmentsAt returns the segments at the last failure of a history. before has the events up to it, of all GPUs.
func segmentsAt(ctx context.Context, gpu trace.GPUHistory, settings *caching.Settings, before []trace.Event) (
	segments []RewoundSegment, err error) {
	at := len(gpu.Events) - 1
	for at >= 0 && gpu.Events[at].Action != trace.AllocateFailure {
		at--
	}
	if at < 0 {
		return nil, errors.New("the record has no such event")
	}
	after := gpu
	after.Events = gpu.Events[at+1:]
	if gpu.Pools != nil {
		after.Pools = gpu.Pools[at+1:]
	}
	state, err := startOf(ctx, after, settings)
	if err == nil {
		_, err = state.measure(settings, after.Events)
	}
	if err != nil {
		return nil, err
	}
	owners := heldBy(before, before[len(before)-1].GPU)
	for _, a := range state.segments {
		s := RewoundSegment{Addr: a.Addr, Stream: a.Stream, Small: a.Small, Expandable: a.Expandable, Pool: a.Pool}
		requested := a.requested()
		for _, piece := range a.pieces() {
			if piece.Unmapped {
				continue
			}
			b := RewoundBlock{Addr: piece.Addr, Bytes: piece.Bytes, Waiting: piece.Waiting}
			if piece.Allocated {
				by, known := owners[piece.Addr]
				b.Requested, b.Holder, b.Stack = requested[piece.Addr], by.Holder, by.Stack
				b.Before = (!known || by.Before) && by.Stack == 0
			}
			s.Bytes += piece.Bytes
			s.Blocks = append(s.Blocks, b)
		}
		segments = append(segments, s)
	}
	return segments, nil
}

func (a *area) requested() map[uint64]uint64 {
	sizes := map[uint64]uint64{}
	for _, b := range a.blocks {
		sizes[b.addr] = b.requested
	}
	return sizes
}

// heldBy returns the last allocation at each address of a GPU.
func heldBy(events []trace.Event, gpu int) map[uint64]trace.Event {
	last := map[uint64]trace.Event{}
	for _, e := range events {
		if e.GPU == gpu && e.Action == trace.Allocate {
			last[e.Addr] = e
		}
	}
	return last
}
