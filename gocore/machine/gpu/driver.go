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

	// MemcpyHtoD and MemcpyDtoH copy between host and device and return when the copy is done. MemcpyDtoD copies
	// within a device, between ranges that do not overlap. All first wait for the legacy default stream, and so for
	// every blocking stream.
	MemcpyHtoD(ordinal int, dst uint64, src []byte) error
	MemcpyDtoH(ordinal int, dst []byte, src uint64) error
	MemcpyDtoD(ordinal int, dst, src, bytes uint64) error

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
	LimitBytes   uint64 // the most that the job may have of the device's memory
	PoolBytes    uint64 // what gpuconf's pools have reserved
	OutsideBytes uint64 // what else was allocated: by other libraries, and by processes without gpuconf
	FreeBytes    uint64 // what is left of the limit
}

// Budgeted is a Driver that knows the budget of the job to which the process belongs.
type Budgeted interface {
	// Budget returns the job's budget on a device; ok is false if it has none there. It creates no context and takes no
	// device memory.
	Budget(ordinal int) (budget Budget, ok bool)
}
