// SPDX-License-Identifier: Apache-2.0

// Package gpu is the interface between gpuconf and the machine: the driver calls that gpuconf uses, their types, and
// the driver's results as errors. It contains no logic and touches no hardware.
//
// # What gpuconf relies on
//
// One conformance suite, tests_go/machine/drivertest, checks these facts against every implementation.
//
//  1. Devices and their attributes can be read before any context exists. Reading them creates none.
//  2. Ordinals are dense from 0, in the order that the process sees (CUDA_VISIBLE_DEVICES already applied).
//  3. Every call that names a device requires a retained primary context on it, else ErrorInvalidContext; facts 1
//     and 11 name the exceptions. Retains are counted. The last release destroys the context and frees
//     every allocation on the device that is still live.
//  4. MemAlloc returns an address that is aligned to at least 256 bytes, never 0, and never inside a live allocation of
//     any device: the machine has one flat address space. Size 0 is ErrorInvalidValue.
//  5. MemAlloc fails with ErrorOutOfMemory if the device does not have enough free bytes, and then changes nothing.
//     Under WSL2 it may succeed, and takes memory of the host (github.com/microsoft/WSL/issues/11050): only limits keep
//     a pool on the card there.
//  6. MemFree accepts only an address that MemAlloc returned and that is still live, else ErrorInvalidValue.
//  7. An allocation reduces MemGetInfo's free bytes by at least its size; freeing it restores them.
//  8. A copy or a fill must lie within one live allocation of the device, or within adjacent mappings that it
//     may access. Otherwise it fails with ErrorInvalidValue (invalid arguments) and writes nothing.
//  9. After Close every call returns ErrorDeinitialized; a second Close does nothing.
//  10. Every method may be called from any goroutine at any time.
//
// # Virtual memory management
//
// On a device without Device.VMM, the calls that name it return ErrorNotSupported.
//
//  11. The granularity can be read without a context. Sizes of physical memory and mappings are multiples of the
//     minimum granularity; the recommended one is a multiple of it. MemCreate, MemMap, MemSetAccess and
//     MemUnmap with another size, or with 0, return ErrorInvalidValue.
//  12. MemAddressReserve allocates no memory. The range is aligned to the requested alignment and to the minimum
//     granularity of every device; it overlaps no live allocation and no other reservation. Size 0, or an alignment
//     that is not a power of two, is ErrorInvalidValue. MemAddressFree accepts only the address and size of a
//     reservation, else ErrorInvalidValue.
//  13. MemCreate allocates the memory immediately: free bytes fall by its size. It fails with ErrorOutOfMemory if the
//     device does not have enough, and then changes nothing.
//  14. MemMap requires a reserved range in which nothing is mapped, no larger than the handle. Otherwise it fails with
//     ErrorInvalidValue and changes nothing. A handle is always mapped from its beginning (CUDA's offset must
//     be 0); gpuconf maps it whole.
//  15. One handle may be mapped at several addresses at once; all show the same bytes.
//  16. A new mapping is not accessible before MemSetAccess, even if an accessible one was at the same address before.
//     MemSetAccess requires a range that is mapped throughout, else ErrorInvalidValue.
//  17. MemUnmap requires a range of whole mappings; part of a mapping, or a range without
//     a mapping, is ErrorInvalidValue. The handle keeps its contents: they are there when it is mapped again, at any
//     address.
//  18. MemRelease of a mapped handle is allowed. The memory is freed, and counted as free again, when neither
//     the handle nor a mapping of it is left.
//
// Not relied on: whether handles and mappings end with a context or outlive it; whether MemUnmap, MemRelease or
// MemFree wait for queued work that uses the memory. The caller must order those.
//
// # Streams
//
// A device executes the work of each stream in order, asynchronously.
//
//  19. Work in one stream runs in the order of the calls. Work in different streams is unordered except by facts
//     20, 23 and 25.
//  20. The legacy default stream (StreamNull, StreamLegacy) waits for work queued earlier in the device's
//     blocking streams, and work queued there later waits for it. Synchronous copies and fills are work in the
//     legacy stream. Non-blocking streams do not take part.
//  21. StreamSynchronize, EventSynchronize and ContextSynchronize return when the work is done; what it wrote is then
//     visible to
//     the host. StreamQuery and EventQuery do not wait.
//  22. StreamDestroy returns immediately, and queued work still runs. The stream's number may be reused, the
//     id of StreamGetID never is. Drivers older than CUDA 12.0 have no ids: ErrorNotSupported.
//  23. An event marks the work that was queued in its stream at the last EventRecord; an event that was never recorded
//     is
//     done. StreamWaitEvent waits for what the event marks at the time of the call: recording or destroying the
//     event later has no effect on the wait. It works across devices.
//  24. A priority outside the device's range is clamped to it.
//  25. StreamWriteValue64 writes the whole word once everything before it is done; any reader of the value then sees
//     the effects of that work. StreamWaitValue64 blocks the stream until int64(word-value) >= 0;
//     host or device may write the word. A device without Device.StreamMemOps returns ErrorNotSupported. CUDA
//     does not know about dependencies made by words, and may schedule waiting work ahead of the work that it waits
//     for: also record an event and wait for it, or wait only for work that is already running.
//  26. An Async call checks its arguments as in fact 8, and queues nothing if they are invalid. The memory must
//     stay live until the work is done.
//  27. Streams, events and page-locked memory belong to a context and are destroyed with it, including queued work.
//  28. MemHostAlloc returns memory aligned to 8 bytes. Every device with a context accesses it at HostMemory.Addr.
//
// # Other libraries
//
// NVIDIA's libraries work in the calling thread's current context. A Driver of real GPUs also implements Native.
//
//  29. InContext calls work once, on a thread whose current context is the device's primary one, and returns its error.
//     Afterwards the
//     thread's current context is what it was before. The context is not destroyed while work runs. work may call the
//     driver.
//  30. Functions registered with AtContextEnd are called once, in reverse order, when the context is about to end:
//     after the last
//     InContext in it, and before its remaining resources are freed. They must not call the driver.
//
// # Captures
//
// A stream can be captured: work queued in it does not run, but is recorded as a graph, which can be launched
// repeatedly.
//
//  31. Work queued in a captured stream runs at each launch of its graph, ordered with the other work of the stream
//     that the graph is
//     launched in, and never before. The legacy default stream cannot be captured.
//  32. Calls that query captured work, or make it depend on work that is not captured, fail with a capture error
//     (900 to 907) and invalidate the capture, so that StreamEndCapture returns ErrorStreamCaptureInvalidated:
//     StreamSynchronize and StreamQuery of the stream, EventQuery and EventSynchronize of an event recorded in it,
//     ContextSynchronize, a wait in it for an event from outside; and, if the stream is a blocking one, every use of
//     the legacy stream, including synchronous copies. StreamGetCaptureInfo does not: for the legacy stream it then
//     returns ErrorStreamCaptureImplicit. StreamGetID of a captured stream must not be called: it fails, and may
//     invalidate the capture.
//  33. Waiting for an event recorded in a capture adds the waiting stream to that capture, if it is in none. The first
//     stream has to
//     wait for it before the capture ends. A wait by a stream that is in another capture invalidates both.
//  34. Allocating and freeing memory of any kind does not affect a capture, nor do events and streams that are not part
//     of it.
//  35. CaptureLife ends when the graph and everything instantiated from it are destroyed and no launch of it is left,
//     or when the
//     capture fails.
//
// # Managed memory
//
//  36. MemAllocManaged follows facts 3 to 6 and 8 as MemAlloc does: MemFree accepts its addresses; copies, fills and
//     stream memory
//     operations work on its memory; the memory is freed with the device's context. A device without Device.Managed
//     returns ErrorNotSupported.
//  37. On a device with Device.Oversubscribes, managed memory may exceed the device's free memory and its total. All of
//     it can be read
//     and written; the driver migrates pages between device and host.
//  38. On a device without it, managed memory must fit on the device: facts 5 and 7 hold.
//  39. Managed memory on a device with Device.Oversubscribes does not displace other memory: MemAlloc and MemCreate may
//     use whatever is free without it, and the driver migrates managed pages to the host to make room.
//
// Not relied on: what MemGetInfo reports as free while a device that oversubscribes has managed memory; where a page
// resides; that host threads or other devices can access managed memory.
package gpu
