// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"gpuconf/gocore/base/pickle"
	"gpuconf/gocore/base/status"
)

// intervals are the sizes, in MiB, that roundup_power2_divisions is given for.
var intervals = [...]string{"1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192",
	"16384", "32768"}

// snapshotWords are all that is read: keys and texts. PyTorch writes no library and no tag, and gpuconf those of a
// rehearsal.
var snapshotWords = append([]string{
	"device_traces", "segments", "action", "addr", "size", "stream", "time_us", "device", "address", "blocks",
	"requested_size", "state", "active_allocated", "active_pending_free", "alloc", "free", "free_completed", "oom",
	"segment_alloc", "segment_free", "segment_map", "segment_unmap", "free_requested", "total_size", "segment_type",
	"small", "segment_pool_id", "is_expandable", "inactive", "allocator_settings", "max_split_size",
	"max_non_split_rounding_size", "large_segment_size", "garbage_collection_threshold", "expandable_segments",
	"roundup_power2_divisions", "frames", "filename", "line", "name", "library", "tag", "device_free", "pool_id",
	"max_cached_size", "history", "real_size", "gpuconf", "card", "torch", "command", "pool_left",
}, intervals[:]...)

// snapshotActions maps torch's words to actions. A free counts when it is completed, not when it is requested: until
// then, a stream may use the memory.
var snapshotActions = map[string]Action{
	"alloc": Allocate, "free": Free, "free_completed": Free, "oom": AllocateFailure, "segment_alloc": SegmentAlloc,
	"segment_free": SegmentFree, "segment_map": SegmentMap, "segment_unmap": SegmentUnmap,
	"pool_left": PoolLeft, // gpuconf's own, in the recording of a rehearsal
}

// ReadBoth reads the pickle that torch.cuda.memory._dump_snapshot() writes as a Recording and as a History. A file that
// is a recording, but no history, has the reason in incomplete.
//
// In the Recording, blocks that are live at the end and that no event mentions are allocated before the first event.
// Events with unknown actions are skipped. Errors name the entry.
//
// It takes memory for at most a multiple of the file's size, whatever the file contains.
func ReadBoth(ctx context.Context, data []byte) (recording Recording, history *History, incomplete, err error) {
	recording, root, err := readSnapshot(ctx, data)
	if err != nil {
		return recording, nil, nil, err
	}
	r := historyReader{snapshot: snapshot{ctx: ctx, tree: root.tree, budget: pickle.NewBudget(len(data))},
		history: &History{}}
	if incomplete = r.read(root.value); ctx.Err() != nil {
		return recording, nil, nil, ctx.Err()
	}
	return recording, r.history, incomplete, nil
}

// root is a file's object.
type root struct {
	tree  *pickle.Tree
	value pickle.Value
}

func readSnapshot(ctx context.Context, data []byte) (Recording, root, error) {
	s := snapshot{ctx: ctx, budget: pickle.NewBudget(len(data)), seen: map[place]struct{}{}}
	s.data, s.naming, s.stacks = data, newNaming(), map[pickle.Value]uint32{}
	s.frameAt, s.framePlaces = map[pickle.Value]uint32{}, map[Frame]uint32{}
	var err error
	var object pickle.Value
	if s.tree, object, err = pickle.Read(ctx, data, snapshotWords, s.budget); err == nil {
		err = s.read(object)
	}
	if err != nil {
		if ctx.Err() == nil {
			err = status.Errorf(status.InvalidArgument, "it is not a memory snapshot: %w", err)
		}
		return Recording{}, root{}, err
	}
	if len(s.before) > 0 {
		s.events = append(s.before, s.events...)
	}
	settings := s.settings(object)
	return Recording{Events: s.events, Names: s.naming.Names, Settings: &settings}, root{s.tree, object}, nil
}

// snapshot builds the events of one file.
type snapshot struct {
	ctx    context.Context
	tree   *pickle.Tree
	budget *pickle.Budget

	events []Event
	seen   map[place]struct{} // the blocks that events mention
	before []Event
	walked int // entries

	data        []byte
	naming      *naming
	stacks      map[pickle.Value]uint32 // by list of frames, which entries may share
	frames      []Frame                 // those read so far
	framePlaces map[Frame]uint32        // in frames
	frameAt     map[pickle.Value]uint32 // places, by the dict in the file
	key         []byte                  // scratch space
}

// place identifies a block.
type place struct {
	gpu  int
	addr uint64
}

func (s *snapshot) read(root pickle.Value) error {
	traces := s.tree.Get(root, "device_traces")
	if traces.Kind() != pickle.List {
		return errors.New("it has no device_traces; call torch.cuda.memory._record_memory_history() before the code " +
			"to record")
	}
	for gpu, trace := range s.tree.Items(traces) {
		if err := s.trace(gpu, trace); err != nil {
			return err
		}
	}
	if segments := s.tree.Get(root, "segments"); segments.Kind() != pickle.Unset {
		return s.segments(segments)
	}
	return nil
}

// eventBytes is the size of an event in memory, and later as a line of CSV.
const eventBytes = 128

// step is called for each entry and charges for it. Entries may be shared, so even a small file can contain any number
// of them.
func (s *snapshot) step() error {
	s.walked++
	if s.walked%stepsBetween == 0 && s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	return s.budget.Take(entryBytes)
}

const entryBytes = 16

func (s *snapshot) trace(gpu int, trace pickle.Value) error {
	if trace.Kind() != pickle.List {
		return fmt.Errorf("device_traces[%d]: expected a list, but got %s", gpu, trace.Kind())
	}
	if err := s.step(); err != nil {
		return err
	}
	for i, entry := range s.tree.Items(trace) {
		if err := s.event(gpu, entry); err != nil {
			return fmt.Errorf("device_traces[%d][%d]%w", gpu, i, err)
		}
	}
	return nil
}

// event adds an event if its action is known.
func (s *snapshot) event(gpu int, entry pickle.Value) (err error) {
	if entry.Kind() != pickle.Dict {
		return fmt.Errorf(": expected a dict, but got %s", entry.Kind())
	}
	if err := s.step(); err != nil {
		return fmt.Errorf(": %w", err)
	}
	action, known := snapshotActions[s.tree.Word(s.tree.Get(entry, "action"))]
	if !known {
		return nil
	}
	e := Event{Action: action, GPU: gpu}
	fields := fields{s: s, entry: entry}
	if e.Action != AllocateFailure {
		e.Addr = fields.number("addr", mostNumber)
	}
	e.Micros = int64(fields.optional("time_us", 0, mostMicros))
	e.Bytes = fields.number("size", mostBytes)
	e.Stream = fields.optional("stream", 0, mostNumber)
	if fields.err != nil {
		return fields.err
	}
	if err := s.origin(&e, entry); err != nil {
		return fmt.Errorf(": %w", err)
	}
	return s.add(&s.events, e, true)
}

func (s *snapshot) add(events *[]Event, e Event, mentioned bool) error {
	if e.GPU >= mostGPUs {
		return fmt.Errorf(": GPU %d; at most %d GPUs are supported", e.GPU, mostGPUs)
	}
	if e.Addr == 0 && e.Bytes > 0 && e.Action != AllocateFailure {
		return fmt.Errorf(": %s of %d bytes at address 0", e.Action, e.Bytes)
	}
	if err := s.budget.Take(eventBytes); err != nil {
		return fmt.Errorf(": %w", err)
	}
	if mentioned && (e.Action == Allocate || e.Action == Free) {
		s.seen[place{e.GPU, e.Addr}] = struct{}{}
	}
	*events = append(*events, e)
	return nil
}

// segments adds an allocation for each block that is live at the end and that no event mentions.
func (s *snapshot) segments(segments pickle.Value) error {
	if segments.Kind() != pickle.List {
		return fmt.Errorf("segments: expected a list, but got %s", segments.Kind())
	}
	for i, segment := range s.tree.Items(segments) {
		if err := s.segment(segment); err != nil {
			return fmt.Errorf("segments[%d]%w", i, err)
		}
	}
	return nil
}

func (s *snapshot) segment(segment pickle.Value) error {
	if segment.Kind() != pickle.Dict {
		return fmt.Errorf(": expected a dict, but got %s", segment.Kind())
	}
	if err := s.step(); err != nil {
		return fmt.Errorf(": %w", err)
	}
	fields := fields{s: s, entry: segment}
	gpu, addr := int(fields.optional("device", 0, mostGPUs-1)), fields.number("address", mostNumber)
	stream := fields.optional("stream", 0, mostNumber)
	if fields.err != nil {
		return fields.err
	}
	blocks := s.tree.Get(segment, "blocks")
	if blocks.Kind() != pickle.List && blocks.Kind() != pickle.Unset {
		return fmt.Errorf(".blocks: expected a list, but got %s", blocks.Kind())
	}
	for j, block := range s.tree.Items(blocks) {
		size, err := s.block(block, gpu, addr, stream)
		if err != nil {
			return fmt.Errorf(".blocks[%d]%w", j, err)
		}
		addr += size
	}
	return nil
}

func (s *snapshot) block(block pickle.Value, gpu int, addr, stream uint64) (size uint64, err error) {
	if block.Kind() != pickle.Dict {
		return 0, fmt.Errorf(": expected a dict, but got %s", block.Kind())
	}
	if err := s.step(); err != nil {
		return 0, fmt.Errorf(": %w", err)
	}
	fields := fields{s: s, entry: block}
	size = fields.number("size", mostBytes)
	state := s.tree.Word(s.tree.Get(block, "state"))
	if fields.err != nil || state != "active_allocated" && state != "active_pending_free" {
		return size, fields.err
	}
	if _, mentioned := s.seen[place{gpu, addr}]; mentioned {
		return size, nil
	}
	requested := fields.optional("requested_size", size, mostBytes)
	frames := block
	if history := s.tree.Items(s.tree.Get(block, "history")); len(history) > 0 {
		// PyTorch 2.0 and earlier have these in a list, in which the newest allocation comes first.
		frames = history[0]
		if real, ok := s.tree.Get(frames, "real_size").Uint(); ok && real > 0 && real <= size {
			requested = real
		}
	}
	if fields.err != nil {
		return size, fields.err
	}
	var began int64
	if len(s.events) > 0 {
		began = s.events[0].Micros
	}
	e := Event{Micros: began, Action: Allocate, Before: true, GPU: gpu, Addr: addr, Bytes: requested, Block: size,
		Stream: stream}
	if err := s.origin(&e, frames); err != nil {
		return size, fmt.Errorf(": %w", err)
	}
	return size, s.add(&s.before, e, false)
}

const (
	mostNumber = 1<<64 - 1
	mostMicros = mostSeconds*1e6 - 1
)

// fields reads numbers from a dictionary and keeps the first error.
type fields struct {
	s     *snapshot
	entry pickle.Value
	err   error
}

func (f *fields) number(word string, most uint64) uint64 {
	value := f.s.tree.Get(f.entry, word)
	n, ok := value.Uint()
	if (!ok || n > most) && f.err == nil {
		f.err = fmt.Errorf(": %s must be an integer from 0 to %d, but got %s", word, most, value)
	}
	return n
}

// optional is like number, for an entry that may be missing.
func (f *fields) optional(word string, missing, most uint64) uint64 {
	if f.s.tree.Get(f.entry, word).Kind() == pickle.Unset {
		return missing
	}
	return f.number(word, most)
}

// What a snapshot says about the origin of a block: PyTorch writes frames, and gpuconf a library and a tag as well. It
// is additional information, so values of other kinds than expected count as missing.

// origin sets an event's holder and stack.
func (s *snapshot) origin(e *Event, entry pickle.Value) (err error) {
	if e.Action != Free { // PyTorch records the calls of a free, too
		if e.Stack, err = s.stack(s.tree.Get(entry, "frames")); err != nil {
			return err
		}
	}
	library, tag := s.textOf(s.tree.Get(entry, "library")), s.textOf(s.tree.Get(entry, "tag"))
	if library == "" && tag == "" {
		return nil
	}
	if err := s.budget.Take(len(library) + len(tag)); err != nil {
		return err
	}
	e.Holder = s.naming.holder(Holder{library, tag})
	return nil
}

func (s *snapshot) stack(list pickle.Value) (number uint32, err error) {
	frames := s.tree.Items(list)
	if len(frames) == 0 {
		return 0, nil
	}
	if number, ok := s.stacks[list]; ok {
		return number, nil
	}
	frames = frames[:min(len(frames), mostFrames)]
	if s.walked += len(frames); s.walked%stepsBetween < len(frames) && s.ctx.Err() != nil {
		return 0, s.ctx.Err()
	}
	s.key = s.key[:0]
	for _, frame := range frames {
		place, err := s.frame(frame)
		if err != nil {
			return 0, err
		}
		if s.frames[place] != (Frame{}) {
			s.key = binary.LittleEndian.AppendUint32(s.key, place)
		}
	}
	// PyTorch stores a list for each event, but frames and stacks are few. So only a new stack is charged. The items of
	// the lists themselves, and with them this walk, the tree has charged: each list is read once.
	number, known := s.naming.stacks[string(s.key)]
	if !known {
		if err := s.budget.Take((1 + frameBytes/4) * len(s.key)); err != nil {
			return 0, err
		}
		number = s.naming.stack(string(s.key), func() (stack Stack) {
			for key := s.key; len(key) > 0; key = key[4:] {
				stack = append(stack, s.frames[binary.LittleEndian.Uint32(key)])
			}
			return stack
		})
	}
	s.stacks[list] = number
	return number, s.budget.Take(stackEntryBytes)
}

// stackEntryBytes is what a list of frames takes in snapshot.stacks.
const stackEntryBytes = 48

const (
	mostLine   = 1<<31 - 1
	frameBytes = 64
)

// frame returns the place in s.frames of a frame, which many stacks may share: with the frames of C++, a file is a
// fraction of the text of all its stacks.
func (s *snapshot) frame(frame pickle.Value) (place uint32, err error) {
	if place, ok := s.frameAt[frame]; ok {
		return place, nil
	}
	if err := s.budget.Take(frameBytes); err != nil {
		return 0, err
	}
	line, ok := s.tree.Get(frame, "line").Uint()
	if !ok || line > mostLine {
		line = 0
	}
	f := Frame{s.textOf(s.tree.Get(frame, "filename")), int(line), s.textOf(s.tree.Get(frame, "name"))}
	place, ok = s.framePlaces[f]
	if !ok {
		if err := s.budget.Take(len(f.File) + len(f.Function) + 2*frameBytes); err != nil {
			return 0, err
		}
		place = uint32(len(s.frames))
		s.frames, s.framePlaces[f] = append(s.frames, f), place
	}
	s.frameAt[frame] = place
	return place, nil
}

// textOf returns a text of the file; "" if it is not valid UTF-8, or longer than mostText.
func (s *snapshot) textOf(v pickle.Value) string {
	start, length, ok := v.Span()
	if !ok || length > mostText || start+length > len(s.data) || !utf8.Valid(s.data[start:start+length]) {
		return ""
	}
	return string(s.data[start : start+length])
}

// mostText is the length of the longest text that is kept.
const mostText = 1 << 12
