// Package sim is a machine of simulated GPUs: a gpu.Driver whose device memory is real host memory, so that
// buffers can be read and written on a computer that has no GPU.
//
// A Spec ("2xH100-80GB") names the cards, a Machine is made of it, and an Injector makes any driver fail on
// demand. What a card is comes from a catalogue (models.go): name, memory, compute capability, multiprocessors.
//
// # What is simulated
//
// Identity, memory and the driver's rules: who may call what, which address is whose, how much is free. A card's
// speed, its streams and its kernels are not.
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
// # Invariants
//
//  1. The live allocations of a card are in address order, do not overlap, and lie inside its reservation.
//  2. A card's charged bytes are the sum of its live allocations, and with the bytes in use elsewhere
//     never exceed its memory.
//  3. A card without a retained context has no live allocation.
//  4. Everything below a card's committed end is readable and writable; everything above was never handed out.
//  5. Reservations of all open machines are disjoint.
//
// # Locks
//
// One sync.RWMutex a Machine. Whatever changes the books takes it for writing; copies and fills take it for reading, so
// that many run at once, and none meets a Close that unmaps the memory below it. The Injector has a mutex of its own,
// never held while it calls upstream.
package sim
