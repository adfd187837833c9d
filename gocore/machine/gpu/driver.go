// SPDX-License-Identifier: Apache-2.0

package gpu

// Device describes one GPU as the driver sees it. It is a value: nothing in it changes while the machine runs.
type Device struct {
	Ordinal         int        // CUDA ordinal, after CUDA_VISIBLE_DEVICES
	UUID            string     // "GPU-", or "MIG-" for a MIG instance, and 32 hex digits grouped 8-4-4-4-12
	PCIBusID        string     // "0000:17:00.0"
	Name            string     // "NVIDIA H100 80GB HBM3"
	ComputeMajor    int        // compute capability 9.0 is 9, 0
	ComputeMinor    int        // 0 of compute capability 9.0
	Multiprocessors int        // the number of streaming multiprocessors
	TotalBytes      uint64     // the size of its memory, as cuDeviceTotalMem reports it
	MemoryKind      MemoryKind // where its memory is

	// The stream priorities that the device accepts: GreatestPriority (numerically lowest, most urgent) to
	// LeastPriority. Both are 0 if the device does not support priorities.
	LeastPriority    int
	GreatestPriority int // numerically the lowest

	VMM          bool // VirtualMemory works on it
	StreamMemOps bool // StreamWriteValue64 and StreamWaitValue64 work on it

	Managed        bool // MemAllocManaged works on it
	Oversubscribes bool // managed memory may exceed device memory; host memory holds what does not fit
}

// Driver is the only interface to the hardware. It is implemented by the CUDA driver, the simulated machine, and
// wrappers of either that log or inject failures. Methods are named after the CUDA driver calls that they stand for.
// Errors are Result values, wrapped or plain.
type Driver interface {
	// Devices returns the GPUs that the process may use, by ordinal. It creates no context.
	Devices() ([]Device, error)

	// ContextRetain retains the primary context of a device; ContextRelease releases it.
	ContextRetain(ordinal int) error
	ContextRelease(ordinal int) error
	// ContextSynchronize waits until all work queued on the device is done, including work in destroyed streams.
	ContextSynchronize(ordinal int) error

	// MemGetInfo returns the free and total bytes of a device. On a device with Unified memory, free is what the host
	// can still provide, including memory that its kernel would reclaim first.
	MemGetInfo(ordinal int) (freeBytes, totalBytes uint64, err error)

	// MemAlloc allocates device memory. MemFree frees memory of MemAlloc and MemAllocManaged.
	MemAlloc(ordinal int, bytes uint64) (addr uint64, err error)
	MemFree(ordinal int, addr uint64) error

	// MemcpyHtoD and MemcpyDtoH copy between host and device and return when the copy is done. Both first wait for the
	// legacy default stream, and so for every blocking stream.
	MemcpyHtoD(ordinal int, dst uint64, src []byte) error
	MemcpyDtoH(ordinal int, dst []byte, src uint64) error

	// MemsetD8 fills device memory with a byte value and returns when it is done. It waits as copies do.
	MemsetD8(ordinal int, dst uint64, value byte, bytes uint64) error

	ManagedAllocator
	VirtualMemory
	Streams
	Captures
	HostAllocator

	// HostVisible reports whether device addresses are also host addresses, as on simulated GPUs.
	HostVisible() bool

	// Close closes the driver and frees all memory that is still live.
	Close() error
}

// Native is a Driver whose contexts NVIDIA's other libraries can use; facts 29 and 30.
type Native interface {
	// Version returns the newest CUDA version that the driver supports: 12040 is 12.4.
	Version() int

	// InContext runs work in a device's primary context.
	InContext(ordinal int, work func() error) error

	// AtContextEnd registers end to be called before the device's primary context ends. entered reports whether the
	// context is current during the call: a context that has failed can no longer be entered.
	AtContextEnd(ordinal int, end func(entered bool)) error
}

// Budget is how the processes of a job together use the memory that the job may have of a device. All sizes are bytes.
// Others allocate and free meanwhile, so the figures are a snapshot; LimitBytes is the sum of the other three unless
// more than the limit is in use.
type Budget struct {
	// What the guard of `gpuconf run` lets the job's processes have of the GPU; 0 without the guard.
	LimitBytes uint64 `py:"budget_limit_bytes" default:"0"`
	// Of it, what gpuconf's pools have reserved, in all processes of the job.
	PoolBytes uint64 `py:"budget_pool_bytes" default:"0"`
	// Of it, what is allocated otherwise: by libraries past the pools, and by the job's other programs.
	OutsideBytes uint64 `py:"budget_outside_bytes" default:"0"`
	FreeBytes    uint64 `py:"budget_free_bytes" default:"0"` // what is left of it
}

// Budgeted is a Driver that knows the budget of the job to which the process belongs.
type Budgeted interface {
	// Budget returns the job's budget on a device; ok is false if it has none there. It creates no context and takes no
	// device memory.
	Budget(ordinal int) (budget Budget, ok bool)

	// BudgetProcesses returns the processes of the job that have memory of a device.
	BudgetProcesses(ordinal int) []Process
}

// MemoryKind says where a GPU's memory is. The zero value is a GPU's own memory.
type MemoryKind int

// The kinds.
const (
	Dedicated MemoryKind = iota // the GPU's own memory
	// Unified is the host's memory, which the GPU shares with programs on the CPU, as on GB10 and Jetson.
	Unified
	// Coherent is the GPU's own memory, which the CPU can also access, as on GH200. Its size does not include the CPU's
	// memory.
	Coherent
)

// String returns the kind as commands and documents name it.
func (k MemoryKind) String() string {
	return [...]string{Dedicated: "dedicated", Unified: "unified", Coherent: "coherent"}[k]
}

// ManagedAllocator allocates unified memory, which CUDA calls managed memory: it migrates between device and host
// memory as it is used; facts 36 to 39. It works on devices with Device.Managed.
type ManagedAllocator interface {
	// MemAllocManaged allocates managed memory that any stream on any device can access. MemFree frees it.
	MemAllocManaged(ordinal int, bytes uint64) (addr uint64, err error)
}

// HostMemory is page-locked host memory that devices can access. Bytes and Words are the same memory, valid until
// MemFreeHost. Use sync/atomic to read a word that a stream writes.
type HostMemory struct {
	Addr  uint64   // the address for devices and the driver
	Bytes []byte   // the memory, for the host
	Words []uint64 // the whole words of Bytes
}

// HostAllocator allocates page-locked host memory; fact 28.
type HostAllocator interface {
	// MemHostAlloc allocates memory that every device can access. It belongs to the context of the given device.
	// MemFreeHost frees it.
	MemHostAlloc(ordinal int, bytes uint64) (HostMemory, error)
	MemFreeHost(ordinal int, addr uint64) error
}

// Handle is physical memory from MemCreate: a CUmemGenericAllocationHandle as a number.
type Handle uint64

// VirtualMemory is virtual memory management: addresses and physical memory are allocated separately. It works on
// devices with Device.VMM; facts 11 to 18.
type VirtualMemory interface {
	// MemGetAllocationGranularity returns the minimum granularity of the device's physical memory and mappings,
	// and the granularity that performs best. It needs no context.
	MemGetAllocationGranularity(ordinal int) (minimum, recommended uint64, err error)

	// MemAddressReserve reserves a range of addresses without memory, aligned to alignment (a power of two, or 0
	// for the default). The range belongs to no device, and the call needs no context. MemAddressFree frees a whole
	// range.
	MemAddressReserve(bytes, alignment uint64) (addr uint64, err error)
	MemAddressFree(addr, bytes uint64) error

	// MemCreate allocates physical memory of a device, without an address. MemRelease releases the handle;
	// the memory is freed once it is no longer mapped.
	MemCreate(ordinal int, bytes uint64) (Handle, error)
	MemRelease(handle Handle) error

	// MemMap maps a whole handle at addr, in a reserved range; bytes is the handle's size. MemUnmap
	// removes one or more adjacent whole mappings. The range stays reserved.
	MemMap(addr, bytes uint64, handle Handle) error
	MemUnmap(addr, bytes uint64) error

	// MemSetAccess gives a device, and every other one that can access its memory (cuDeviceCanAccessPeer), read and
	// write access to a range of whole mappings.
	MemSetAccess(ordinal int, addr, bytes uint64) error
}

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
	// MemHostAlloc. MemcpyDtoDAsync copies within a device, between ranges that do not overlap.
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
