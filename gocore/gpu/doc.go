// Package gpu is the seam between gpuconf and the machine: the driver calls it relies on, the values they
// take and give, and the driver's answers as errors. It holds no mechanism and touches no hardware.
//
// # What gpuconf relies on
//
// These facts are checked by one conformance suite, tests_go/drivertest, against every implementation.
//
//  1. Devices and a device's attributes can be read before any context exists, and reading creates none.
//  2. Ordinals are dense from 0, in the order that the process sees (CUDA_VISIBLE_DEVICES already applied).
//  3. Every call that names a device needs a retained primary context on it, else ErrorInvalidContext; facts 1
//     and 11 name the exceptions. Retains are counted; the context ends with the last release, and with it
//     every allocation on the device that is still live.
//  4. MemAlloc gives an address aligned to 256 bytes at least, never 0, never inside a live allocation of any
//     device: one flat address space serves the machine. Size 0 is ErrorInvalidValue.
//  5. MemAlloc fails with ErrorOutOfMemory when the device has not enough free bytes, and then changes nothing.
//  6. MemFree takes exactly an address that MemAlloc gave and that is still live, else ErrorInvalidValue.
//  7. MemGetInfo's free bytes fall by at least the size of an allocation and return when it is freed.
//  8. A copy or a fill must lie within one live allocation of the device, or within adjacent mappings that it
//     may access, else ErrorInvalidValue (bad arguments) and no byte is written.
//  9. After Close every call gives ErrorDeinitialized; a second Close does nothing.
//  10. Every method may be called from any goroutine at any time.
//
// # Virtual memory management
//
// On a device without Device.VMM the calls that name it give ErrorNotSupported.
//
//  11. The granularity can be read without a context. Physical memory and mappings come in multiples of the
//     minimum granularity; the recommended one is a multiple of it. MemCreate, MemMap, MemSetAccess and
//     MemUnmap of another size, or of 0, are ErrorInvalidValue.
//  12. MemAddressReserve takes no memory. The range is aligned to the alignment asked, and to the minimum
//     granularity of every device; it overlaps no live allocation and no other reservation. An alignment that
//     is no power of two, or size 0, is ErrorInvalidValue. MemAddressFree takes exactly an address and a size
//     that were reserved, else ErrorInvalidValue.
//  13. MemCreate takes the memory at once: free bytes fall by its size. It fails with ErrorOutOfMemory when the
//     device has not enough, and then changes nothing.
//  14. MemMap wants a reserved range in which nothing is mapped, and not more bytes than the handle has, else
//     ErrorInvalidValue, and nothing changes. A handle is always mapped from its beginning (CUDA's offset must
//     be 0): here, whole.
//  15. One handle may be mapped at several places at once; all show the same bytes.
//  16. A new mapping is not accessible before MemSetAccess, even where an accessible one was before.
//     MemSetAccess wants a range that is mapped throughout, else ErrorInvalidValue.
//  17. MemUnmap wants a range of whole mappings; a part of one is ErrorInvalidValue, and so is a range without
//     a mapping. What was written stays in the handle: mapped again, anywhere, it is there.
//  18. MemRelease of a mapped handle is allowed. The memory is given back, and free bytes return, when neither
//     the handle nor a mapping of it is left.
//
// Not relied on: that handles and mappings end with a context, or outlive it; that MemUnmap, MemRelease or
// MemFree wait for queued work that uses the memory. To order that is the caller's part.
//
// # Streams
//
// A device works through each stream in order, in the background.
//
//  19. Work of one stream is done in the order of the calls. Between streams there is no order but what facts
//     20, 23 and 25 give.
//  20. The legacy default stream (StreamNull, StreamLegacy) waits for what was queued before in the device's
//     blocking streams, and what is queued there later waits for it. The copies and fills that return when they
//     are done are work in it. Non-blocking streams take no part.
//  21. StreamSynchronize, EventSynchronize and ContextSynchronize return when the work is done; what it wrote is then visible to
//     the host. StreamQuery and EventQuery do not wait.
//  22. StreamDestroy returns at once, and what is queued is still done. The stream's number may come again, the
//     id of StreamGetID never does. A driver older than CUDA 12.0 has no ids: ErrorNotSupported.
//  23. An event marks what was queued in its stream at the last EventRecord; one that was never recorded is
//     done. StreamWaitEvent waits for what the event marks at the time of the call: recording or destroying the
//     event later changes nothing. It works across devices.
//  24. A priority out of the device's range is brought into it.
//  25. StreamWriteValue64 writes the whole word when everything before it is done, and the effects of that are
//     visible to whoever reads the value. StreamWaitValue64 holds the stream back until int64(word-value) >= 0;
//     host or device may write the word. A device without Device.StreamMemOps gives ErrorNotSupported. CUDA
//     knows nothing of an order made by words, and may put work that waits before the work that it waits for:
//     record and wait for an event as well, or only wait for what is running already.
//  26. An Async call checks its arguments as fact 8 says, and queues nothing if they are bad. The memory must
//     last until the work is done.
//  27. Streams, events and page-locked memory belong to a context, and end with it, queued work included.
//  28. MemHostAlloc gives memory at a multiple of 8. Every device with a context reaches it at HostMemory.Addr.
//
// # Other libraries
//
// NVIDIA's libraries work in whatever context is the thread's current one. A Driver of real GPUs is a Native too.
//
//  29. InContext calls work once, on a thread whose current context is the device's primary one, and gives its error. When it returns, the
//     thread's current context is what it was. The context does not end while work runs. work may call the driver.
//  30. What AtContextEnd was given is called once, the last first, when the context is about to end, after the last InContext in it
//     and before what is left in the context is given back. It must not call the driver.
//
// # Captures
//
// A stream can be captured: what is queued in it is then not done, but written down as a graph, which can be launched again and again.
//
//  31. What is queued in a captured stream is done by each launch of its graph, in order with the rest of the stream that it is launched
//     in, and never before. The legacy default stream can't be captured.
//  32. Whatever asks for the state of captured work, or ties it to work that is not captured, is refused with an error of a capture's
//     (900 to 907), and spoils the capture, so that StreamEndCapture gives ErrorStreamCaptureInvalidated: StreamSynchronize and StreamQuery
//     of the stream, EventQuery and EventSynchronize of an event recorded in it, ContextSynchronize, a wait in it for an event from
//     outside; and, where the stream is a blocking one, every use of the legacy stream, copies that return when they are done included.
//     StreamGetCaptureInfo is not one of them: of the legacy stream it then gives ErrorStreamCaptureImplicit.
//  33. A wait for an event recorded in a capture brings the waiting stream into it, if it is in none; it has to be waited for by the
//     first one before the end. One that is in another capture spoils both.
//  34. Taking memory and giving it back, of whatever kind, disturbs no capture, nor do events and streams that have no part in it.
//  35. CaptureLife ends when the graph and all that was instantiated of it are destroyed and no launch of it is left, or when the capture
//     comes to nothing.
//
// # Managed memory
//
//  36. MemAllocManaged follows facts 3 to 6 and 8 as MemAlloc does: MemFree takes its addresses, copies, fills and a stream's words
//     reach its memory, and the memory ends with the device's context. A device without Device.Managed gives ErrorNotSupported.
//  37. On a device with Device.Oversubscribes, managed memory may exceed what is free, and the device's total. All of it can be read
//     and written; the driver moves pages between the device and the host.
//  38. On a device without it, managed memory must fit on the device: fact 5 holds, and fact 7.
//  39. Managed memory on a device with Device.Oversubscribes does not take the place of other memory: MemAlloc and MemCreate may
//     use what is free without it, and the driver moves managed pages to the host to make room.
//
// Not relied on: what MemGetInfo reports as free while a device that oversubscribes has managed memory; where a page lies; that
// host threads or other devices reach managed memory.
package gpu
