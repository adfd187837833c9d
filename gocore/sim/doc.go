// SPDX-License-Identifier: Apache-2.0

// Package sim simulates a machine with GPUs: a gpu.Driver whose device memory is real host memory, so that
// buffers can be read and written on a computer without a GPU. Machines are for tests, which step through their schedules: gpuconf.simulate
// takes a Spec's cards from here (Devices), and opens them on the simulated CUDA driver (gocore/cuda, pybind/simulator).
//
// A Spec ("2xH100-80GB") names the cards, and New creates a Machine from it. The properties of a card (name, memory, compute capability,
// multiprocessors) come from a catalogue (models.go).
//
// # What is simulated
//
// Identity, memory, streams and the driver's rules: which calls are valid, who owns an address, how much memory is free, and what waits
// for what. Speed and kernels are not simulated: work in streams consists of copies, fills and words.
//
//   - Device addresses are host addresses. Each card has one reservation of twice its memory, made when the
//     machine opens and released when it closes. Nothing is committed before it is touched, so an 80 GiB card
//     costs an idle host nothing. Twice, because a GPU's page tables hide the fragmentation of addresses:
//     an allocation is limited by free bytes and, in practice, never by a missing range.
//   - An allocation is charged its size rounded up to 256 bytes, and nothing else is charged: no context, no
//     page, no 2 MiB granule. So free bytes are predictable to the byte.
//   - Addresses are first fit, lowest first. Allocations of 2 MiB or more are aligned to 2 MiB, smaller ones
//     to 256 bytes. The same calls return the same addresses in every process.
//   - Freed memory is returned to the host at once, but stays readable and writable (fresh pages read as zero) until
//     the machine closes: a view that outlives its buffer reads garbage, but never faults.
//   - A new allocation's contents are unspecified, as on a GPU.
//   - An empty copy or fill succeeds and does nothing, at any address.
//
// # Virtual memory management
//
// A card's physical memory is one file in memory (memfd), and a mapping is a mapping of that file. So data written at
// one address is visible at every other address where the handle is mapped, now or later.
//
//   - Granules are 2 MiB (Model.GranularityBytes). A handle is charged at MemCreate, and its pages are returned to the host when
//     neither the handle nor a mapping of it is left.
//   - Addresses that were mapped stay readable and writable after MemUnmap and MemAddressFree. Addresses that were never mapped
//     fault. MemSetAccess only updates the accounting: the host can access a mapping before.
//   - The host limits the number of mappings (vm.max_map_count, usually 65530). Handles mapped side by side in the order
//     of their creation count as one; otherwise each counts. At the limit MemMap returns ErrorOutOfMemory.
//   - What CUDA leaves undefined is refused with ErrorInvalidValue: an unknown handle, freeing a reservation that has mappings, copies
//     that overlap.
//   - Handles, mappings and reservations belong to the process and outlive contexts. No card can access another's.
//
// # Managed memory
//
// Managed memory is host memory, like all memory here; only the accounting says how much of it is on the card. Cards with compute
// capability 6.0 or newer oversubscribe.
//
//   - On a card that oversubscribes, an allocation succeeds as long as the host has address space. It counts as on the card as far
//     as other memory leaves room: MemGetInfo's free bytes fall to 0, never below. Other memory displaces it at once.
//   - On another card it is charged like MemAlloc's.
//   - An allocation has its own range among the reservations. After it is freed, the range stays readable and writable.
//   - Only copies and fills of the owning card can access it, though CUDA would allow every device.
//
// # Streams
//
// A stream with work has a goroutine that executes it, in order. Options.BeforeWork lets a test hold each piece of work until its turn.
//
//   - The legacy default stream and blocking streams wait for each other as CUDA's do. All threads share one per-thread
//     default stream. Priorities are stored, but have no effect.
//   - An event takes a place in the queue and is done when its turn comes. Numbers of streams and events are reused, lowest
//     first.
//   - Memory is checked twice: when work is queued and when it runs. If the memory was freed meanwhile, the context is
//     broken, as a GPU's is by an illegal address: every call that needs it returns ErrorIllegalAddress until it ends. Freeing memory does
//     not wait for work that uses it, as cuMemFree may.
//   - An unknown stream or event is ErrorInvalidHandle.
//
// Streams of a Machine cannot be captured. Tests capture them with the driver of tests_go/capturing.
//
// # Invariants
//
//  1. The live allocations of an arena (a card's memory, page-locked memory) are in address order, do not overlap, and lie inside its
//     reservation. So are those of a card's managed memory, which lie in ranges that no reservation has.
//  2. A card's charged bytes are the sum of its live allocations and of its physical memory that is held or mapped. Together
//     with the bytes in use elsewhere they never exceed its memory. Managed memory on a card that oversubscribes is not counted.
//  3. A card without a retained context has no live allocation, no stream, no event and no page-locked memory.
//  4. Everything below an arena's committed end is readable and writable; everything above was never allocated.
//  5. Reservations, including those of all other open machines, are disjoint, and so are spare ranges.
//  6. The mappings of a reservation are in address order, do not overlap and lie inside it; each has a part.
//  7. Work that waits for other work was queued after it. So if no stream waits for a word, some stream can make progress.
//
// # Locks
//
// Each Machine has one sync.RWMutex. Changes to the accounting hold it for writing; copies, fills and queueing hold it for reading, so
// that many run at once, and Close cannot unmap the memory that they use. Streams, events and work are guarded by
// queues.mu, which is taken second and never held while work runs. No goroutine waits for work while it holds Machine.mu, because the
// work needs it.
package sim
