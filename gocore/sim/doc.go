// Package sim is a machine of simulated GPUs: a gpu.Driver whose device memory is real host memory, so that
// buffers can be read and written on a computer that has no GPU.
//
// A Spec ("2xH100-80GB") names the cards, and a Machine is made of it. What a card is comes from a catalogue (models.go): name, memory, compute capability, multiprocessors.
//
// # What is simulated
//
// Identity, memory, streams and the driver's rules: who may call what, which address is whose, how much is free, what waits for
// what. A card's speed and its kernels are not: work in streams is copies, fills and words.
//
//   - Device addresses are host addresses. Each card has one reservation of twice its memory, made when the
//     machine opens and given back when it closes; nothing is committed before it is touched, so an 80 GiB card
//     costs an idle host nothing. Twice, because a GPU's page tables hide the fragmentation of addresses:
//     what limits an allocation is free bytes, and in practice never a missing range.
//   - An allocation is charged its size rounded up to 256 bytes, and nothing else is: no context, no
//     page, no 2 MiB granule. So free bytes are predictable to the byte.
//   - Addresses are first fit, lowest first. Allocations of 2 MiB or more start at a multiple of 2 MiB, smaller ones
//     at a multiple of 256 bytes. The same calls give the same addresses in every process.
//   - Freed memory goes back to the host at once, but stays readable and writable (fresh pages read as zero) until
//     the machine closes: a view that outlived its buffer reads nonsense, and never faults.
//   - A new allocation's contents are unspecified, as on a GPU.
//   - An empty copy or fill succeeds and does nothing, wherever it points.
//
// # Virtual memory management
//
// A card's physical memory is one file in memory (memfd); a mapping is a mapping of that file. So what is written at
// one address is seen at every other where the handle is mapped, and is still there when it is mapped elsewhere.
//
//   - Granules are 2 MiB (Model.GranularityBytes). A handle is charged at MemCreate, and its pages go back to the host when
//     neither it nor a mapping is left.
//   - Where something was mapped stays readable and writable after MemUnmap and MemAddressFree. What was never mapped
//     faults. MemSetAccess is a matter of the books: the host can touch a mapping before.
//   - The host counts mappings (vm.max_map_count, mostly 65530). Handles mapped side by side in the order
//     of their creation are one; otherwise each is one. At the limit MemMap gives ErrorOutOfMemory.
//   - What CUDA leaves undefined is refused: an unknown handle, a reservation freed with mappings, copies that overlap
//     (ErrorInvalidValue).
//   - Handles, mappings and reservations are the process's and outlive contexts. No card can reach another's.
//
// # Managed memory
//
// Managed memory is host memory as all memory here is; what lies where is a matter of the counts. Cards oversubscribe from compute
// capability 6.0 on.
//
//   - On a card that oversubscribes, an allocation succeeds as long as the host gives address space. It counts as lying on the card as far
//     as other memory leaves room: MemGetInfo's free bytes fall to 0, never below. Other memory takes its place at once.
//   - On another card it is charged like MemAlloc's.
//   - An allocation has a range of its own among the reservations. Given back, the range stays readable and writable.
//   - Only copies and fills of the owning card reach it, though CUDA would let every device.
//
// # Streams
//
// A stream with work has a goroutine that does it, in order. Options.BeforeWork lets a test hold each piece of work until its turn.
//
//   - The legacy default stream and blocking streams wait for each other as CUDA's do. There is one per-thread
//     default stream for all threads. Priorities are kept, and change nothing.
//   - An event costs a place in the queue; it is done when its turn comes. Numbers of streams and events are used again, lowest
//     first.
//   - Memory is looked for twice, when work is queued and when its turn comes. If it is gone by then, the context is
//     broken, as a GPU's is by an illegal address: every call that needs it gives ErrorIllegalAddress until it ends. No call waits for
//     the work that uses what it frees, as cuMemFree may.
//   - A stream or an event that does not exist is ErrorInvalidHandle.
//
// Nothing captures the streams of a Machine. Tests capture them with the driver of tests_go/capturing.
//
// # Invariants
//
//  1. The live allocations of an arena (a card's memory, page-locked memory) are in address order, do not overlap, and lie inside its
//     reservation. So are those of a card's managed memory, which lie in ranges that no reservation has.
//  2. A card's charged bytes are the sum of its live allocations and of its physical memory that is held or mapped, and
//     with the bytes in use elsewhere never exceed its memory. Managed memory on a card that oversubscribes is left out.
//  3. A card without a retained context has no live allocation, no stream, no event and no page-locked memory.
//  4. Everything below an arena's committed end is readable and writable; everything above was never handed out.
//  5. Reservations, those of all open machines together, are disjoint, and so are spare ranges.
//  6. The mappings of a reservation are in address order, do not overlap and lie inside it; each has a part.
//  7. Work that waits for other work was queued after it. So if no stream waits for a word, some stream can go on.
//
// # Locks
//
// One sync.RWMutex a Machine. Whatever changes the books takes it for writing; copies, fills and queueing take it for reading, so
// that many run at once, and none meets a Close that unmaps the memory below it. Streams, events and work are guarded by
// queues.mu, taken second and never held while work runs. Nobody waits for work with Machine.mu in hand: the work needs it.
package sim
