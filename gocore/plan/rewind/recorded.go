// SPDX-License-Identifier: Apache-2.0

package rewind

import (
	"context"
	"errors"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/plan/caching"
)

// Recorded is what a record says of one GPU's memory, without any model: PyTorch's own segments. If the record
// contradicts itself, nothing but GPU and Unknown is set.
type Recorded struct {
	GPU          int               `json:"gpu"`                 // the GPU's number
	PeakReserved uint64            `json:"peak_bytes_reserved"` // the most that all segments had at one time
	Start        []caching.Segment `json:"start"`               // the segments before the first event; nil: unknown
	Unknown      string            `json:"unknown"`             // how the record contradicts itself; "": it does not
	// Differs is the first event in which the model of PyTorch's allocator does something else than the record has, as
	// a sentence. It is "" if there is none.
	Differs string `json:"differs"`
}

// Complete adds what the record determines to the recording of the same snapshot: the sizes of the blocks that PyTorch
// used, and the segments that it had before the first event. It fails only with the context's error.
func Complete(ctx context.Context, history *trace.History, recording *trace.Recording) (list []*Recorded, err error) {
	sizes := make([][]uint64, len(history.GPUs))
	var before []trace.Event
	for number, gpu := range history.GPUs {
		if len(gpu.Events) == 0 && len(gpu.Segments) == 0 {
			continue
		}
		found := &Recorded{GPU: number}
		list = append(list, found)
		if sizes[number], err = found.rewind(ctx, gpu, history.Settings); err != nil {
			return nil, err
		}
		for _, s := range found.Start {
			before = append(before, startEvents(number, s, recording.Events)...)
		}
	}
	settings := SettingsOf(history.Settings)
	next := make([]int, len(history.GPUs)) // of the events of each GPU
	pools := make([]func(number int, e trace.Event) caching.PoolID, len(history.GPUs))
	for number, gpu := range history.GPUs {
		pools[number] = poolsOf(gpu)
	}
	for i := range recording.Events {
		e := &recording.Events[i]
		if e.Before {
			continue // its block is in the segments at the end
		}
		events := history.GPUs[e.GPU].Events
		for events[next[e.GPU]].Action == trace.FreeRequested {
			next[e.GPU]++
		}
		at := next[e.GPU]
		next[e.GPU]++
		e.Pool = trace.PoolNumber(pools[e.GPU](at+1, *e))
		if e.Action != trace.Allocate && e.Action != trace.Free || e.Bytes == 0 {
			continue
		}
		e.Block = settings.Round(e.Bytes)
		if sizes[e.GPU] != nil && sizes[e.GPU][at] > 0 {
			e.Block = sizes[e.GPU][at]
		}
	}
	recording.Events = append(before, recording.Events...)
	return list, nil
}

// rewind finds the start, and the sizes of the blocks of each event.
func (record *Recorded) rewind(ctx context.Context, gpu trace.GPUHistory, recorded trace.HistorySettings) (
	sizes []uint64, err error) {
	settings := SettingsOf(recorded)
	byAge := recorded.TiesByAge
	sizes, verdict, begin, err := sizesOf(ctx, gpu, settings, byAge)
	if err == nil && !verdict.Same() {
		var other *Verdict
		var otherSizes []uint64
		if otherSizes, other, _, err = sizesOf(ctx, gpu, settings, !byAge); err == nil &&
			(other.Same() || other.SameAddress > verdict.SameAddress) {
			sizes, verdict = otherSizes, other
		}
	}
	var contradiction inconsistent
	switch {
	case errors.As(err, &contradiction):
		record.Unknown = contradiction.Error()
		return nil, nil
	case err != nil:
		return nil, err
	}
	record.Differs = verdict.Difference
	record.Start = []caching.Segment{}
	var reserved uint64
	for _, a := range begin.segments {
		s := a.segment()
		record.Start = append(record.Start, s)
		for _, p := range s.Pieces {
			if !p.Unmapped {
				reserved += p.Bytes
			}
		}
	}
	record.PeakReserved = reserved
	for _, e := range gpu.Events {
		switch e.Action {
		case trace.SegmentAlloc, trace.SegmentMap:
			reserved += e.Bytes
			record.PeakReserved = max(record.PeakReserved, reserved)
		case trace.SegmentFree, trace.SegmentUnmap:
			reserved -= e.Bytes
		}
	}
	return sizes, nil
}

// sizesOf replays the record of one GPU and returns the size of the block that each event allocates or frees; 0 where
// it is not known.
func sizesOf(ctx context.Context, gpu trace.GPUHistory, settings caching.Settings, byAge bool) (
	[]uint64, *Verdict, *start, error) {
	verdict := &Verdict{}
	r := replay{gpu: gpu, verdict: verdict, settings: settings, tiesByAge: byAge,
		sizes: make([]uint64, len(gpu.Events))}
	err := r.run(ctx)
	return r.sizes, verdict, r.begin, err
}

// startEvents returns the events that stand for a segment of the start.
func startEvents(gpu int, s caching.Segment, events []trace.Event) (list []trace.Event) {
	e := trace.Event{Action: trace.SegmentAlloc, Before: true, GPU: gpu, Addr: s.Addr, Bytes: s.Bytes, Stream: s.Stream,
		Pool: trace.PoolNumber(s.Pool)}
	if len(events) > 0 {
		e.Micros = events[0].Micros
	}
	if !s.Expandable {
		return []trace.Event{e}
	}
	e.Action = trace.SegmentMap
	mapped := false // the piece before was mapped, too
	for _, p := range s.Pieces {
		switch {
		case p.Unmapped:
		case mapped:
			list[len(list)-1].Bytes += p.Bytes
		default:
			e.Addr, e.Bytes = p.Addr, p.Bytes
			list = append(list, e)
		}
		mapped = !p.Unmapped
	}
	return list
}
