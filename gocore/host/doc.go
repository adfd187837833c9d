// Package host is the computer's own memory as a device's: blocks by address, and arithmetic on addresses. It serves the CPU
// device, and the arithmetic serves simulated GPUs too, whose device addresses are host addresses.
//
// Products of floating-point matrices are gonum's. Those of integers, which gonum has not, and sums are plain loops.
//
// # Invariants
//
//  1. A block's address is a multiple of 64 and belongs to no other live block.
//  2. A block's memory stays where it is from Allocate to Free: small blocks are held on the Go heap, whose objects don't move, and large ones
//     are mapped, because the Go heap ends the process where a mapping says that there is no more.
//  3. BytesInUse is the sum of the live blocks' sizes.
//
// # Locks
//
// Memory has one sync.RWMutex: whatever changes the table takes it for writing, copies for reading, so that no copy meets a
// block that goes away. Compute has no state.
package host
