// Package cuda is a gpu.Driver over NVIDIA's CUDA driver, libcuda.so.1. Nothing of CUDA is needed to build, to import or
// to start: Open loads the library when it is called.
//
// # The library
//
// The functions that are used stand in one table, symbols.h, with the CUDA version that each appeared in. Those that every driver
// since CUDA 11.0 has are required; a newer one may be missing, and then what needs it gives status.Unimplemented
// (gpu.ErrorNotSupported) and names the version. Once loaded the library stays, whatever happens: other code of the process may use it.
//
// A machine without the library, or with a driver that does not work, gives status.Unavailable from Open. A working driver that has
// no GPU to offer (CUDA_VISIBLE_DEVICES may hide them all) gives a Driver without devices.
//
// # Contexts
//
// Every device has one primary context, which PyTorch, CuPy and all that stands on CUDA's runtime share. This package retains it and
// never makes one of its own. A thread has a current context, which belongs to whoever runs on it. So:
//
//  1. A call makes its device's primary context current if it isn't, and leaves the thread's current context as it
//     found it, also when it fails. Entering and leaving happen in C, within one crossing, so a goroutine cannot change threads in
//     between. InContext is the exception: what it runs is Go, and the goroutine is locked to its thread for that long.
//  2. A result is the call's own, whatever becomes of leaving. It may still be a failure of work that was queued earlier.
//  3. What only names addresses or handles (MemAddressReserve, MemMap, MemUnmap, MemRelease ...) needs no context.
//
// # Books
//
// CUDA's one address space lets any context reach any device's memory, and a copy that goes astray may end the context, PyTorch's
// work included. Other libraries may keep the primary context alive after our last release. What package gpu promises is
// therefore held by books of our own; other libraries' memory is not in them.
//
//  4. A device's reach is what the Driver has allocated there, and mappings that the device may access. A copy, a fill or a stream's
//     word outside is refused before CUDA sees it.
//  5. An address or handle leaves the books before CUDA is asked to take it back, and returns if CUDA refuses: two that give back
//     the same never both reach CUDA.
//  6. The last release of a context, and Close, give back what is left in the books: streams, events, page-locked memory,
//     allocations; Close also mappings, handles and reservations.
//  7. Mappings that the same device may access and that touch are one span of its reach; an allocation is always a span of its own.
//
// Streams are the exception: a stream that is not in the books may be another library's, and is passed on as it is.
//
// # What CUDA leaves open, and is settled here
//
//   - cuMemcpyHtoD and cuMemcpyDtoD may return before the copy is done, cuMemsetD8 nearly always does. The synchronous calls wait.
//   - The range of stream priorities can only be asked in a context. Devices makes none, and tells what NVIDIA's drivers
//     since CUDA 11 were seen to answer: -5 to 0 from compute capability 7.0 on, -2 to 0 before. The driver brings a priority
//     into its range, so a wrong end is harmless.
//   - A MIG instance has the name "MIG-..." instead of "GPU-...". It is told by the driver having two UUIDs for it: the card's and the
//     instance's.
//
// # Captures
//
// Other code of the process may capture streams as graphs. While a thread does that in CUDA's global mode, memory may not be taken
// in any thread, lest somebody believe that it is captured; what we take is meant to be there whenever the graph is launched. So such calls,
// and those that look how far streams are, are made in relaxed mode. How long a graph lives, a user object tells that it holds: its
// destructor writes a word of C's (calls.c), since CUDA calls it in a thread of its own and allows it nothing.
//
// # Locks
//
// One mutex a Driver guards its books; it is never held during a call to CUDA. Whoever is inside a call is counted, and the last
// release of a context, like Close, waits for those. A lock of the package guards loading.
package cuda
