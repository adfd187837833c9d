// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"fmt"

	"gpuconf/gocore/base/pickle"
	"gpuconf/gocore/base/status"
)

// History is what PyTorch's allocator recorded about itself: what it did, and what it held at the end.
type History struct {
	Settings HistorySettings // as far as the snapshot has them
	GPUs     []GPUHistory    // by number

	OfGpuconf bool // not PyTorch's: gpuconf recorded its own allocator
}

// HistorySettings are the settings of PYTORCH_CUDA_ALLOC_CONF that a snapshot names. Sizes are bytes; 0 is the default.
type HistorySettings struct {
	MaxSplitBytes uint64 `json:"max_split_size"` // larger blocks are not split; 0: all are
	// MaxRoundingBytes is how much larger than a request an unsplit block may be.
	MaxRoundingBytes uint64 `json:"max_non_split_rounding_size"`
	// LargeSegmentBytes is the size of segments for blocks above 1 MiB and below 10 MiB.
	LargeSegmentBytes uint64 `json:"large_segment_size"`
	// GarbageThreshold is the fraction of the limit above which cached segments are released. 0: never.
	GarbageThreshold   float64 `json:"garbage_collection_threshold"`
	ExpandableSegments bool    `json:"expandable_segments"` // whether memory is mapped into segments piece by piece
	// RoundupDivisions is the number of block sizes from one power of two to the next, from 1 MiB to 32 GiB and up.
	// With 0 and 1, sizes are rounded to multiples of 512 bytes.
	RoundupDivisions [len(intervals)]uint64 `json:"roundup_power2_divisions"`
	// TiesByAge is not a setting, but whether PyTorch is 2.15 or later: of free blocks of one size, it takes one in the
	// oldest segment. Its snapshots are recognized by a setting of pinned memory.
	TiesByAge bool   `json:"ties_by_age"`
	Card      string `json:"card"`    // the model of GPU that a rehearsal recorded it on; "": unknown
	Torch     string `json:"torch"`   // the version of PyTorch, if a rehearsal recorded it
	Command   string `json:"command"` // the words of the rehearsed program
}

// GPUHistory is the part of one GPU.
type GPUHistory struct {
	Events   []Event     // with FreeRequested
	Pools    [][2]uint64 // of each event; nil: the snapshot does not name them
	Segments []Segment   // at the end

	FreeAtFailure uint64 // what the GPU had left at the last AllocateFailure
}

// Segment is memory that the allocator holds. Its blocks are in the order of addresses.
type Segment struct {
	Addr, Bytes uint64      // the address of the first byte, and the size
	Stream      uint64      // the stream that its blocks are for
	Pool        [2]uint64   // 0, 0: the default pool
	Small       bool        // whether it is for blocks of at most 1 MiB
	Expandable  bool        // whether memory is mapped into it piece by piece
	Blocks      []HeldBlock // without gaps, except for unmapped pieces of an expandable segment
}

// HeldBlock is a block of a Segment.
type HeldBlock struct {
	Addr, Bytes uint64 // the address of the first byte, and the size
	Requested   uint64 // the size that the program requested; meaningless unless Held
	Held        bool   // whether it is allocated, or Waiting
	Waiting     bool   // freed, but another stream may still use it
}

// ReadHistory reads a snapshot, like ReadBoth, as a History.
func ReadHistory(ctx context.Context, data []byte) (*History, error) {
	r := historyReader{snapshot: snapshot{ctx: ctx, budget: pickle.NewBudget(len(data))}, history: &History{}}
	var err error
	var root pickle.Value
	if r.tree, root, err = pickle.Read(ctx, data, snapshotWords, r.budget); err == nil {
		err = r.read(root)
	}
	if err != nil && ctx.Err() == nil {
		err = status.Errorf(status.InvalidArgument, "it is not a memory snapshot: %w", err)
	}
	return r.history, err
}

type historyReader struct {
	snapshot
	history *History
}

func (r *historyReader) read(root pickle.Value) error {
	traces, segments := r.tree.Get(root, "device_traces"), r.tree.Get(root, "segments")
	if traces.Kind() != pickle.List || segments.Kind() != pickle.List {
		return errors.New("it has no device_traces and segments; call torch.cuda.memory._record_memory_history() " +
			"before the code to record")
	}
	for gpu, entries := range r.tree.Items(traces) {
		if gpu >= mostGPUs {
			return fmt.Errorf("device_traces[%d]: at most %d GPUs are supported", gpu, mostGPUs)
		}
		if err := r.events(gpu, entries); err != nil {
			return err
		}
	}
	for i, segment := range r.tree.Items(segments) {
		if err := r.segment(segment); err != nil {
			return fmt.Errorf("segments[%d]%w", i, err)
		}
	}
	r.history.Settings = r.settings(root)
	return nil
}

func (r *historyReader) gpu(number int) *GPUHistory {
	for len(r.history.GPUs) <= number {
		r.history.GPUs = append(r.history.GPUs, GPUHistory{})
	}
	return &r.history.GPUs[number]
}

func (r *historyReader) events(gpu int, entries pickle.Value) error {
	if entries.Kind() != pickle.List {
		return fmt.Errorf("device_traces[%d]: expected a list, but got %s", gpu, entries.Kind())
	}
	history := r.gpu(gpu)
	if err := r.step(); err != nil {
		return err
	}
	for i, entry := range r.tree.Items(entries) {
		if err := r.historyEvent(history, gpu, entry); err != nil {
			return fmt.Errorf("device_traces[%d][%d]%w", gpu, i, err)
		}
	}
	if len(history.Pools) < len(history.Events) {
		history.Pools = nil
	}
	return nil
}

func (r *historyReader) historyEvent(history *GPUHistory, gpu int, entry pickle.Value) error {
	if entry.Kind() != pickle.Dict {
		return fmt.Errorf(": expected a dict, but got %s", entry.Kind())
	}
	if err := r.step(); err != nil {
		return fmt.Errorf(": %w", err)
	}
	word := r.tree.Word(r.tree.Get(entry, "action"))
	action, known := snapshotActions[word]
	if word == "free_requested" {
		action = FreeRequested
	} else if !known {
		return nil
	}
	e := Event{Action: action, GPU: gpu}
	fields := fields{s: &r.snapshot, entry: entry}
	if e.Action != AllocateFailure {
		e.Addr = fields.number("addr", mostNumber)
	} else {
		history.FreeAtFailure = fields.optional("device_free", 0, mostBytes)
	}
	e.Micros = int64(fields.optional("time_us", 0, mostMicros))
	e.Bytes = fields.number("size", mostBytes)
	e.Stream = fields.optional("stream", 0, mostNumber)
	if fields.err != nil {
		return fields.err
	}
	r.history.OfGpuconf = r.history.OfGpuconf || r.tree.Get(entry, "library").Kind() == pickle.Text
	if first, second, ok := r.tree.Get(entry, "pool_id").Pair(); ok && len(history.Pools) == len(history.Events) {
		history.Pools = append(history.Pools, [2]uint64{first, second})
	}
	return r.add(&history.Events, e, false)
}

func (r *historyReader) segment(entry pickle.Value) error {
	if entry.Kind() != pickle.Dict {
		return fmt.Errorf(": expected a dict, but got %s", entry.Kind())
	}
	if err := r.budget.Take(segmentBytes); err != nil {
		return fmt.Errorf(": %w", err)
	}
	fields := fields{s: &r.snapshot, entry: entry}
	gpu := r.gpu(int(fields.optional("device", 0, mostGPUs-1)))
	s := Segment{
		Addr: fields.number("address", mostNumber), Bytes: fields.number("total_size", mostBytes),
		Stream: fields.optional("stream", 0, mostNumber),
		Small:  r.tree.Word(r.tree.Get(entry, "segment_type")) == "small",
	}
	expandable, _ := r.tree.Get(entry, "is_expandable").Uint()
	s.Expandable = expandable == 1
	s.Pool[0], s.Pool[1], _ = r.tree.Get(entry, "segment_pool_id").Pair()
	blocks := r.tree.Get(entry, "blocks")
	if fields.err == nil && blocks.Kind() != pickle.List {
		fields.err = fmt.Errorf(".blocks: expected a list, but got %s", blocks.Kind())
	}
	if fields.err != nil {
		return fields.err
	}
	at := s.Addr
	for i, block := range r.tree.Items(blocks) {
		b, err := r.heldBlock(block, at)
		if err != nil {
			return fmt.Errorf(".blocks[%d]%w", i, err)
		}
		s.Blocks = append(s.Blocks, b)
		at += b.Bytes
	}
	if at != s.Addr+s.Bytes {
		return fmt.Errorf(": its blocks have %d bytes, and the segment has %d", at-s.Addr, s.Bytes)
	}
	gpu.Segments = append(gpu.Segments, s)
	return nil
}

// segmentBytes is the size of a segment and of a block in memory.
const segmentBytes = 96

func (r *historyReader) heldBlock(entry pickle.Value, addr uint64) (b HeldBlock, err error) {
	if entry.Kind() != pickle.Dict {
		return b, fmt.Errorf(": expected a dict, but got %s", entry.Kind())
	}
	if err := r.budget.Take(segmentBytes); err != nil {
		return b, fmt.Errorf(": %w", err)
	}
	fields := fields{s: &r.snapshot, entry: entry}
	b = HeldBlock{Addr: addr, Bytes: fields.number("size", mostBytes)}
	b.Requested = fields.optional("requested_size", b.Bytes, mostBytes)
	state := r.tree.Get(entry, "state")
	b.Held = r.tree.Word(state) != "inactive"
	b.Waiting = b.Held && r.tree.Word(state) != "active_allocated"
	if fields.err == nil && state.Kind() != pickle.Text {
		fields.err = fmt.Errorf(": state must be a str, but got %s", state)
	}
	if fields.err == nil && (b.Bytes == 0 || addr+b.Bytes < addr) {
		fields.err = fmt.Errorf(": %d bytes at %#x", b.Bytes, addr)
	}
	return b, fields.err
}

// settings reads allocator_settings. A value that is missing, negative or of another type is the default.
func (s *snapshot) settings(root pickle.Value) (read HistorySettings) {
	entry := s.tree.Get(root, "allocator_settings")
	bytes := func(in pickle.Value, word string) uint64 {
		n, ok := s.tree.Get(in, word).Uint()
		if !ok {
			return 0
		}
		return n
	}
	read.MaxSplitBytes = bytes(entry, "max_split_size")
	read.MaxRoundingBytes = bytes(entry, "max_non_split_rounding_size")
	read.LargeSegmentBytes = bytes(entry, "large_segment_size")
	read.ExpandableSegments = bytes(entry, "expandable_segments") == 1
	threshold, ok := s.tree.Get(entry, "garbage_collection_threshold").Number()
	if ok && threshold > 0 && threshold < 1 {
		read.GarbageThreshold = threshold
	}
	read.TiesByAge = s.tree.Get(entry, "max_cached_size").Kind() != pickle.Unset
	rehearsal := s.tree.Get(root, "gpuconf")
	read.Card, read.Torch = s.textOf(s.tree.Get(rehearsal, "card")), s.textOf(s.tree.Get(rehearsal, "torch"))
	read.Command = s.textOf(s.tree.Get(rehearsal, "command"))
	roundup := s.tree.Get(entry, "roundup_power2_divisions")
	for i, size := range intervals {
		read.RoundupDivisions[i] = bytes(roundup, size)
	}
	return read
}
