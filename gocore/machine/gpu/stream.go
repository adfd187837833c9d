// SPDX-License-Identifier: Apache-2.0

package gpu

// Stream is a CUstream, a work queue of one device, as a number. The number may be reused after StreamDestroy;
// ids of StreamGetID are never reused.
type Stream uint64

// Streams that every context has.
const (
	StreamNull   Stream = 0 // the default stream: the legacy one, as gpuconf calls the driver
	StreamLegacy Stream = 1 // CU_STREAM_LEGACY: the same stream by an explicit name
	// CU_STREAM_PER_THREAD: the calling thread's own blocking stream. A goroutine may change threads
	StreamPerThread Stream = 2
)

// StreamFlags are the flags of StreamCreate, with CUDA's values.
type StreamFlags uint32

const (
	StreamDefault     StreamFlags = 0 // a blocking stream: synchronizes with the legacy stream
	StreamNonBlocking StreamFlags = 1 // does not synchronize with the legacy stream
)

// Event is a CUevent as a number. It marks a position in a stream.
type Event uint64

// Streams queues asynchronous work and orders it. The device passed to a call must be the stream's or
// the event's own; facts 19 to 27.
type Streams interface {
	// StreamCreate creates a stream. A priority outside the device's range is clamped to it.
	StreamCreate(ordinal int, flags StreamFlags, priority int) (Stream, error)
	// StreamDestroy destroys a stream without waiting. Work that is already queued still runs.
	StreamDestroy(ordinal int, stream Stream) error
	// StreamGetID returns an id that is unique among all streams of the process, past and future. The stream must not
	// be captured.
	StreamGetID(ordinal int, stream Stream) (id uint64, err error)
	StreamGetPriority(ordinal int, stream Stream) (priority int, err error)
	// StreamSynchronize waits until all work queued so far is done; StreamQuery reports whether it is.
	StreamSynchronize(ordinal int, stream Stream) error
	StreamQuery(ordinal int, stream Stream) (done bool, err error)
	// StreamWaitEvent makes later work of the stream wait for what the event marks now. The event may belong to another
	// device.
	StreamWaitEvent(ordinal int, stream Stream, event Event) error

	// EventCreate creates an event without timing. It marks nothing until it is recorded.
	EventCreate(ordinal int) (Event, error)
	// EventDestroy destroys an event without waiting. Pending waits for it remain in effect.
	EventDestroy(ordinal int, event Event) error
	// EventRecord makes the event mark all work queued in the stream so far, replacing what it marked before.
	EventRecord(ordinal int, event Event, stream Stream) error
	// EventSynchronize waits until the work that the event marks is done; EventQuery reports whether it is.
	EventSynchronize(ordinal int, event Event) error
	EventQuery(ordinal int, event Event) (done bool, err error)

	// StreamWriteValue64 writes a word once all work queued before it is done. StreamWaitValue64 makes later work wait
	// until the word minus value, as a signed number, is at least 0. The word must be in memory of
	// the stream's device or in page-locked host memory, at a multiple of 8. Requires Device.StreamMemOps.
	StreamWriteValue64(ordinal int, stream Stream, addr, value uint64) error
	StreamWaitValue64(ordinal int, stream Stream, addr, value uint64) error

	// The Async calls queue a copy or a fill and return. Host addresses must be in page-locked memory from
	// MemHostAlloc.
	MemcpyHtoDAsync(ordinal int, dst, hostSrc, bytes uint64, stream Stream) error
	MemcpyDtoHAsync(ordinal int, hostDst, src, bytes uint64, stream Stream) error
	MemcpyDtoDAsync(ordinal int, dst, src, bytes uint64, stream Stream) error
	MemsetD8Async(ordinal int, dst uint64, value byte, bytes uint64, stream Stream) error
}

// CaptureLife tracks the lifetime of a captured graph: from its capture until the graph, everything instantiated from
// it and all launches are done. Ended does not wait. Once true, it stays true.
type CaptureLife interface{ Ended() bool }

// Captures reports on streams whose work is being captured as graphs, by any code in the process; facts 31 to 35.
type Captures interface {
	// StreamGetCaptureInfo returns the id of the capture that a stream takes part in, or 0 if it is not being captured.
	// Ids are never reused. The call does not affect any capture.
	StreamGetCaptureInfo(ordinal int, stream Stream) (capture uint64, err error)
	// StreamGetCaptureLife returns the lifetime of the graph that a stream is being captured into.
	StreamGetCaptureLife(ordinal int, stream Stream) (CaptureLife, error)
}

// CaptureInfo is a Driver whose cuStreamGetCaptureInfo C code may call directly, for a stream of the thread's current
// context.
type CaptureInfo interface {
	// CaptureInfoFunction returns the function's address.
	CaptureInfoFunction() uintptr
}
