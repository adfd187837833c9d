// Package placement makes the logical devices of a devmgr.Manager the devices that operations run on: package graph's Device over
// a GPU's pool, and over the computer's own memory.
//
// # The idea
//
// A Machine is what belongs together: the Manager, whose limits and books hold for operations as for every other use, the memory
// and the arithmetic of the CPU, and the arithmetic of the GPUs. Devices makes a graph.Devices of a part of it, the first
// CPUs and GPUs. A session may see fewer GPUs than there are, and more CPUs: those share the computer's memory anyway.
//
// # Invariants
//
//  1. A device holds nothing: it is a name for what the Manager or the Memory has. Whatever an operation takes is theirs to count,
//     so after it their books say what they said before.
//  2. A device of a GPU goes by the number of the logical GPU. Pools that the Manager builds anew under that number serve it
//     too; where there is no such number any more, its calls fail with InvalidArgument.
//
// # Locks
//
// None: everything here is immutable.
package placement
