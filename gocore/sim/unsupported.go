package sim

import "gpuconf/gocore/gpu"

// MemGetAllocationGranularity is not simulated.
func (m *Machine) MemGetAllocationGranularity(ordinal int) (minimum, recommended uint64, err error) {
	return 0, 0, gpu.ErrorNotSupported
}

// MemAddressReserve is not simulated.
func (m *Machine) MemAddressReserve(bytes, alignment uint64) (addr uint64, err error) {
	return 0, gpu.ErrorNotSupported
}

// MemAddressFree is not simulated.
func (m *Machine) MemAddressFree(addr, bytes uint64) error { return gpu.ErrorNotSupported }

// MemCreate is not simulated.
func (m *Machine) MemCreate(ordinal int, bytes uint64) (gpu.Handle, error) {
	return 0, gpu.ErrorNotSupported
}

// MemRelease is not simulated.
func (m *Machine) MemRelease(handle gpu.Handle) error { return gpu.ErrorNotSupported }

// MemMap is not simulated.
func (m *Machine) MemMap(addr, bytes uint64, handle gpu.Handle) error { return gpu.ErrorNotSupported }

// MemUnmap is not simulated.
func (m *Machine) MemUnmap(addr, bytes uint64) error { return gpu.ErrorNotSupported }

// MemSetAccess is not simulated.
func (m *Machine) MemSetAccess(ordinal int, addr, bytes uint64) error { return gpu.ErrorNotSupported }

// StreamCreate is not simulated.
func (m *Machine) StreamCreate(ordinal int, flags gpu.StreamFlags, priority int) (gpu.Stream, error) {
	return 0, gpu.ErrorNotSupported
}

// StreamDestroy is not simulated.
func (m *Machine) StreamDestroy(ordinal int, stream gpu.Stream) error { return gpu.ErrorNotSupported }

// StreamGetID is not simulated.
func (m *Machine) StreamGetID(ordinal int, stream gpu.Stream) (id uint64, err error) {
	return 0, gpu.ErrorNotSupported
}

// StreamGetPriority is not simulated.
func (m *Machine) StreamGetPriority(ordinal int, stream gpu.Stream) (priority int, err error) {
	return 0, gpu.ErrorNotSupported
}

// StreamSynchronize is not simulated.
func (m *Machine) StreamSynchronize(ordinal int, stream gpu.Stream) error {
	return gpu.ErrorNotSupported
}

// StreamQuery is not simulated.
func (m *Machine) StreamQuery(ordinal int, stream gpu.Stream) (done bool, err error) {
	return false, gpu.ErrorNotSupported
}

// StreamWaitEvent is not simulated.
func (m *Machine) StreamWaitEvent(ordinal int, stream gpu.Stream, event gpu.Event) error {
	return gpu.ErrorNotSupported
}

// EventCreate is not simulated.
func (m *Machine) EventCreate(ordinal int) (gpu.Event, error) { return 0, gpu.ErrorNotSupported }

// EventDestroy is not simulated.
func (m *Machine) EventDestroy(ordinal int, event gpu.Event) error { return gpu.ErrorNotSupported }

// EventRecord is not simulated.
func (m *Machine) EventRecord(ordinal int, event gpu.Event, stream gpu.Stream) error {
	return gpu.ErrorNotSupported
}

// EventSynchronize is not simulated.
func (m *Machine) EventSynchronize(ordinal int, event gpu.Event) error { return gpu.ErrorNotSupported }

// EventQuery is not simulated.
func (m *Machine) EventQuery(ordinal int, event gpu.Event) (done bool, err error) {
	return false, gpu.ErrorNotSupported
}

// StreamWriteValue64 is not simulated.
func (m *Machine) StreamWriteValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	return gpu.ErrorNotSupported
}

// StreamWaitValue64 is not simulated.
func (m *Machine) StreamWaitValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	return gpu.ErrorNotSupported
}

// MemcpyHtoDAsync is not simulated.
func (m *Machine) MemcpyHtoDAsync(ordinal int, dst, hostSrc, bytes uint64, stream gpu.Stream) error {
	return gpu.ErrorNotSupported
}

// MemcpyDtoHAsync is not simulated.
func (m *Machine) MemcpyDtoHAsync(ordinal int, hostDst, src, bytes uint64, stream gpu.Stream) error {
	return gpu.ErrorNotSupported
}

// MemcpyDtoDAsync is not simulated.
func (m *Machine) MemcpyDtoDAsync(ordinal int, dst, src, bytes uint64, stream gpu.Stream) error {
	return gpu.ErrorNotSupported
}

// MemsetD8Async is not simulated.
func (m *Machine) MemsetD8Async(ordinal int, dst uint64, value byte, bytes uint64, stream gpu.Stream) error {
	return gpu.ErrorNotSupported
}

// MemHostAlloc is not simulated.
func (m *Machine) MemHostAlloc(ordinal int, bytes uint64) (gpu.HostMemory, error) {
	return gpu.HostMemory{}, gpu.ErrorNotSupported
}

// MemFreeHost is not simulated.
func (m *Machine) MemFreeHost(ordinal int, addr uint64) error { return gpu.ErrorNotSupported }

// MemcpyDtoD is not simulated.
func (m *Machine) MemcpyDtoD(ordinal int, dst, src, bytes uint64) error { return gpu.ErrorNotSupported }
