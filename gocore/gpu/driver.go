// Package gpu is the seam between gpuconf and the machine: the driver calls it relies on, the values they
// take and give, and the driver's answers as errors. It holds no mechanism and touches no hardware.
//
// # What gpuconf relies on
//
// These facts are checked by one conformance suite, tests_go/drivertest, against every implementation.
//
//  1. Devices and a device's attributes can be read before any context exists, and reading creates none.
//  2. Ordinals are dense from 0, in the order that the process sees (CUDA_VISIBLE_DEVICES already applied).
//  3. Every call that touches memory needs a retained primary context on its device, else
//     ErrorInvalidContext. Retains are counted; the context ends with the last release, and with it
//     every allocation on the device that is still live.
//  4. MemAlloc gives an address aligned to 256 bytes at least, never 0, never inside a live allocation of any
//     device: one flat address space serves the machine. Size 0 is ErrorInvalidValue.
//  5. MemAlloc fails with ErrorOutOfMemory when the device has not enough free bytes, and then changes nothing.
//  6. MemFree takes exactly an address that MemAlloc gave and that is still live, else ErrorInvalidValue.
//  7. MemGetInfo's free bytes fall by at least the size of an allocation and return when it is freed.
//  8. A copy or a fill must lie within one live allocation of the device, else ErrorInvalidValue (bad
//     arguments) and no byte is written.
//  9. After Close every call gives ErrorDeinitialized; a second Close does nothing.
//
// 10. Every method may be called from any goroutine at any time.
package gpu

// Device describes one GPU as the driver sees it. It is a value: nothing in it changes while the machine runs.
type Device struct {
	Ordinal         int    // CUDA ordinal, after CUDA_VISIBLE_DEVICES
	UUID            string // "GPU-" and 32 hex digits grouped 8-4-4-4-12
	PCIBusID        string // "0000:17:00.0"
	Name            string // "NVIDIA H100 80GB HBM3"
	ComputeMajor    int    // compute capability 9.0 is 9, 0
	ComputeMinor    int
	Multiprocessors int
	TotalBytes      uint64

	// The stream priorities that the device accepts: GreatestPriority (numerically lowest, most urgent) to
	// LeastPriority; both 0 where it has none.
	LeastPriority    int
	GreatestPriority int
}

// Driver is the one seam to the outside: the CUDA driver, a simulated machine, and wrappers of either that log
// or inject failures. Methods are named after the CUDA driver call that they stand for. Errors are
// Result values, wrapped or plain.
type Driver interface {
	// Devices lists the GPUs that the process may use, by ordinal. No context is created.
	Devices() ([]Device, error)

	// ContextRetain retains the primary context of a device; ContextRelease gives it back.
	ContextRetain(ordinal int) error
	ContextRelease(ordinal int) error

	// MemGetInfo tells the free and the total bytes of a device.
	MemGetInfo(ordinal int) (freeBytes, totalBytes uint64, err error)

	// MemAlloc takes device memory; MemFree gives it back.
	MemAlloc(ordinal int, bytes uint64) (addr uint64, err error)
	MemFree(ordinal int, addr uint64) error

	// MemcpyHtoD and MemcpyDtoH copy between host and device and return when the copy is done.
	MemcpyHtoD(ordinal int, dst uint64, src []byte) error
	MemcpyDtoH(ordinal int, dst []byte, src uint64) error

	// MemsetD8 fills device memory with one byte value and returns when it is done.
	MemsetD8(ordinal int, dst uint64, value byte, bytes uint64) error

	// HostVisible reports whether device addresses are host addresses too, as on simulated GPUs.
	HostVisible() bool

	// Close ends the driver. Memory still live is gone.
	Close() error
}
