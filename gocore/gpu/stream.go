package gpu

// Stream is a queue of work of one device: a CUstream by number. Numbers are used again after StreamDestroy;
// StreamGetID's are not.
type Stream uint64

// Streams that every context has.
const (
	StreamNull      Stream = 0 // the default stream: the legacy one, as gpuconf calls the driver
	StreamLegacy    Stream = 1 // CU_STREAM_LEGACY: the same by an explicit name
	StreamPerThread Stream = 2 // CU_STREAM_PER_THREAD: the calling thread's own, a blocking stream. A goroutine changes threads
)

// StreamFlags are the flags of StreamCreate, CUDA's by number.
type StreamFlags uint32

const (
	StreamDefault     StreamFlags = 0 // a blocking stream: it and the legacy stream wait for each other
	StreamNonBlocking StreamFlags = 1 // the legacy stream and it know nothing of each other
)

// Event marks a place in a stream: a CUevent by number.
type Event uint64

// Streams is work in the background, and how pieces of it wait for each other. The device of a
// call is the stream's or the event's own; facts 19 to 27.
type Streams interface {
	// StreamCreate makes a stream. A priority out of the device's range is brought into it.
	StreamCreate(ordinal int, flags StreamFlags, priority int) (Stream, error)
	// StreamDestroy ends a stream at once; what is queued in it is still done.
	StreamDestroy(ordinal int, stream Stream) error
	// StreamGetID gives a number that no other stream of the process has had or will have.
	StreamGetID(ordinal int, stream Stream) (id uint64, err error)
	StreamGetPriority(ordinal int, stream Stream) (priority int, err error)
	// StreamSynchronize waits until everything queued before is done; StreamQuery tells whether it is.
	StreamSynchronize(ordinal int, stream Stream) error
	StreamQuery(ordinal int, stream Stream) (done bool, err error)
	// StreamWaitEvent makes later work of the stream wait for what the event marks now. The event may be another
	// device's.
	StreamWaitEvent(ordinal int, stream Stream, event Event) error

	// EventCreate makes an event that marks nothing yet. It keeps no time.
	EventCreate(ordinal int) (Event, error)
	// EventDestroy ends an event at once; waits for it go on.
	EventDestroy(ordinal int, event Event) error
	// EventRecord makes the event mark what is queued in the stream now, instead of what it marked before.
	EventRecord(ordinal int, event Event, stream Stream) error
	// EventSynchronize waits until what the event marks is done; EventQuery tells whether it is.
	EventSynchronize(ordinal int, event Event) error
	EventQuery(ordinal int, event Event) (done bool, err error)

	// StreamWriteValue64 writes a word when everything queued before is done. StreamWaitValue64 makes later work wait
	// until the word minus value, as a signed number, is 0 or more. The word lies in device memory of
	// the stream's device or in page-locked host memory, at a multiple of 8. Devices with Device.StreamMemOps only.
	StreamWriteValue64(ordinal int, stream Stream, addr, value uint64) error
	StreamWaitValue64(ordinal int, stream Stream, addr, value uint64) error

	// The Async calls queue a copy or a fill and return. Host addresses lie in page-locked memory of MemHostAlloc.
	MemcpyHtoDAsync(ordinal int, dst, hostSrc, bytes uint64, stream Stream) error
	MemcpyDtoHAsync(ordinal int, hostDst, src, bytes uint64, stream Stream) error
	MemcpyDtoDAsync(ordinal int, dst, src, bytes uint64, stream Stream) error
	MemsetD8Async(ordinal int, dst uint64, value byte, bytes uint64, stream Stream) error
}
