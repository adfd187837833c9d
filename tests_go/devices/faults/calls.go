package faults

import "gpuconf/gocore/machine/gpu"

// The calls of gpu.Driver. Each is counted, and passed on unless a fault fails it.

func (i *Injector) Devices() ([]gpu.Device, error) {
	return pass1(i, "Devices", -1, 0, func() ([]gpu.Device, error) { return i.upstream.Devices() })
}

func (i *Injector) ContextRetain(ordinal int) error {
	return i.pass("ContextRetain", ordinal, 0, func() error { return i.upstream.ContextRetain(ordinal) })
}

func (i *Injector) ContextRelease(ordinal int) error {
	return i.pass("ContextRelease", ordinal, 0, func() error { return i.upstream.ContextRelease(ordinal) })
}

func (i *Injector) MemGetInfo(ordinal int) (freeBytes, totalBytes uint64, err error) {
	return pass2(i, "MemGetInfo", ordinal, 0, func() (uint64, uint64, error) { return i.upstream.MemGetInfo(ordinal) })
}

func (i *Injector) MemAlloc(ordinal int, bytes uint64) (addr uint64, err error) {
	return take(i, "MemAlloc", ordinal, bytes, i.upstream.MemAlloc)
}

func (i *Injector) MemAllocManaged(ordinal int, bytes uint64) (addr uint64, err error) {
	return take(i, "MemAllocManaged", ordinal, bytes, i.upstream.MemAllocManaged)
}

func (i *Injector) MemFree(ordinal int, addr uint64) error {
	return i.pass("MemFree", ordinal, 0, func() error { return i.upstream.MemFree(ordinal, addr) })
}

func (i *Injector) MemcpyHtoD(ordinal int, dst uint64, src []byte) error {
	return i.pass("MemcpyHtoD", ordinal, uint64(len(src)),
		func() error { return i.upstream.MemcpyHtoD(ordinal, dst, src) })
}

func (i *Injector) MemcpyDtoH(ordinal int, dst []byte, src uint64) error {
	return i.pass("MemcpyDtoH", ordinal, uint64(len(dst)),
		func() error { return i.upstream.MemcpyDtoH(ordinal, dst, src) })
}

func (i *Injector) MemsetD8(ordinal int, dst uint64, value byte, bytes uint64) error {
	return i.pass("MemsetD8", ordinal, bytes, func() error { return i.upstream.MemsetD8(ordinal, dst, value, bytes) })
}

// HostVisible passes the call on.
func (i *Injector) HostVisible() bool { return i.upstream.HostVisible() }

// Close passes the call on.
func (i *Injector) Close() error { return i.upstream.Close() }

func (i *Injector) MemGetAllocationGranularity(ordinal int) (minimum, recommended uint64, err error) {
	return pass2(i, "MemGetAllocationGranularity", ordinal, 0,
		func() (uint64, uint64, error) { return i.upstream.MemGetAllocationGranularity(ordinal) })
}

func (i *Injector) MemAddressReserve(bytes, alignment uint64) (addr uint64, err error) {
	return pass1(i, "MemAddressReserve", -1, bytes,
		func() (uint64, error) { return i.upstream.MemAddressReserve(bytes, alignment) })
}

func (i *Injector) MemAddressFree(addr, bytes uint64) error {
	return i.pass("MemAddressFree", -1, bytes, func() error { return i.upstream.MemAddressFree(addr, bytes) })
}

func (i *Injector) MemCreate(ordinal int, bytes uint64) (gpu.Handle, error) {
	return take(i, "MemCreate", ordinal, bytes, i.upstream.MemCreate)
}

func (i *Injector) MemRelease(handle gpu.Handle) error {
	return i.pass("MemRelease", -1, 0, func() error { return i.upstream.MemRelease(handle) })
}

func (i *Injector) MemMap(addr, bytes uint64, handle gpu.Handle) error {
	return i.pass("MemMap", -1, bytes, func() error { return i.upstream.MemMap(addr, bytes, handle) })
}

func (i *Injector) MemUnmap(addr, bytes uint64) error {
	return i.pass("MemUnmap", -1, bytes, func() error { return i.upstream.MemUnmap(addr, bytes) })
}

func (i *Injector) MemSetAccess(ordinal int, addr, bytes uint64) error {
	return i.pass("MemSetAccess", ordinal, bytes, func() error { return i.upstream.MemSetAccess(ordinal, addr, bytes) })
}

func (i *Injector) MemHostAlloc(ordinal int, bytes uint64) (gpu.HostMemory, error) {
	return pass1(i, "MemHostAlloc", ordinal, bytes,
		func() (gpu.HostMemory, error) { return i.upstream.MemHostAlloc(ordinal, bytes) })
}

func (i *Injector) MemFreeHost(ordinal int, addr uint64) error {
	return i.pass("MemFreeHost", ordinal, 0, func() error { return i.upstream.MemFreeHost(ordinal, addr) })
}

func (i *Injector) StreamCreate(ordinal int, flags gpu.StreamFlags, priority int) (gpu.Stream, error) {
	return pass1(i, "StreamCreate", ordinal, 0,
		func() (gpu.Stream, error) { return i.upstream.StreamCreate(ordinal, flags, priority) })
}

func (i *Injector) StreamDestroy(ordinal int, stream gpu.Stream) error {
	return i.pass("StreamDestroy", ordinal, 0, func() error { return i.upstream.StreamDestroy(ordinal, stream) })
}

func (i *Injector) StreamGetID(ordinal int, stream gpu.Stream) (id uint64, err error) {
	return pass1(i, "StreamGetID", ordinal, 0,
		func() (uint64, error) { return i.upstream.StreamGetID(ordinal, stream) })
}

func (i *Injector) StreamGetPriority(ordinal int, stream gpu.Stream) (priority int, err error) {
	return pass1(i, "StreamGetPriority", ordinal, 0,
		func() (int, error) { return i.upstream.StreamGetPriority(ordinal, stream) })
}

func (i *Injector) StreamSynchronize(ordinal int, stream gpu.Stream) error {
	return i.pass("StreamSynchronize", ordinal, 0,
		func() error { return i.upstream.StreamSynchronize(ordinal, stream) })
}

func (i *Injector) StreamQuery(ordinal int, stream gpu.Stream) (done bool, err error) {
	return pass1(i, "StreamQuery", ordinal, 0, func() (bool, error) { return i.upstream.StreamQuery(ordinal, stream) })
}

func (i *Injector) StreamWaitEvent(ordinal int, stream gpu.Stream, event gpu.Event) error {
	return i.pass("StreamWaitEvent", ordinal, 0,
		func() error { return i.upstream.StreamWaitEvent(ordinal, stream, event) })
}

func (i *Injector) EventCreate(ordinal int) (gpu.Event, error) {
	return pass1(i, "EventCreate", ordinal, 0, func() (gpu.Event, error) { return i.upstream.EventCreate(ordinal) })
}

func (i *Injector) EventDestroy(ordinal int, event gpu.Event) error {
	return i.pass("EventDestroy", ordinal, 0, func() error { return i.upstream.EventDestroy(ordinal, event) })
}

func (i *Injector) EventRecord(ordinal int, event gpu.Event, stream gpu.Stream) error {
	return i.pass("EventRecord", ordinal, 0, func() error { return i.upstream.EventRecord(ordinal, event, stream) })
}

func (i *Injector) EventSynchronize(ordinal int, event gpu.Event) error {
	return i.pass("EventSynchronize", ordinal, 0, func() error { return i.upstream.EventSynchronize(ordinal, event) })
}

func (i *Injector) EventQuery(ordinal int, event gpu.Event) (done bool, err error) {
	return pass1(i, "EventQuery", ordinal, 0, func() (bool, error) { return i.upstream.EventQuery(ordinal, event) })
}

func (i *Injector) StreamWriteValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	return i.pass("StreamWriteValue64", ordinal, 8,
		func() error { return i.upstream.StreamWriteValue64(ordinal, stream, addr, value) })
}

func (i *Injector) StreamWaitValue64(ordinal int, stream gpu.Stream, addr, value uint64) error {
	return i.pass("StreamWaitValue64", ordinal, 8,
		func() error { return i.upstream.StreamWaitValue64(ordinal, stream, addr, value) })
}

func (i *Injector) MemcpyDtoHAsync(ordinal int, hostDst, src, bytes uint64, stream gpu.Stream) error {
	return i.pass("MemcpyDtoHAsync", ordinal, bytes,
		func() error { return i.upstream.MemcpyDtoHAsync(ordinal, hostDst, src, bytes, stream) })
}

func (i *Injector) MemcpyDtoDAsync(ordinal int, dst, src, bytes uint64, stream gpu.Stream) error {
	return i.pass("MemcpyDtoDAsync", ordinal, bytes,
		func() error { return i.upstream.MemcpyDtoDAsync(ordinal, dst, src, bytes, stream) })
}

func (i *Injector) MemsetD8Async(ordinal int, dst uint64, value byte, bytes uint64, stream gpu.Stream) error {
	return i.pass("MemsetD8Async", ordinal, bytes,
		func() error { return i.upstream.MemsetD8Async(ordinal, dst, value, bytes, stream) })
}

func (i *Injector) ContextSynchronize(ordinal int) error {
	return i.pass("ContextSynchronize", ordinal, 0, func() error { return i.upstream.ContextSynchronize(ordinal) })
}

func (i *Injector) StreamGetCaptureInfo(ordinal int, stream gpu.Stream) (capture uint64, err error) {
	return pass1(i, "StreamGetCaptureInfo", ordinal, 0,
		func() (uint64, error) { return i.upstream.StreamGetCaptureInfo(ordinal, stream) })
}

func (i *Injector) StreamGetCaptureLife(ordinal int, stream gpu.Stream) (gpu.CaptureLife, error) {
	return pass1(i, "StreamGetCaptureLife", ordinal, 0,
		func() (gpu.CaptureLife, error) { return i.upstream.StreamGetCaptureLife(ordinal, stream) })
}
