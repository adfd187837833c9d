// Package graph is operations on tensors: graphs of them, eager calls, where each runs, and the running.
//
// # The idea
//
// A Devices value is the list of logical devices that operations can run on. A Graph is a list of nodes that only grows. A Session
// places a graph's nodes on devices and runs what is fetched. Devices.Execute places and runs a single operation.
//
// What runs is a kernel: an operation for one element type on one kind of device (kernels.go). A kernel can keep its operands in
// host memory though it counts as the GPU's; those of int32 on a GPU do, as TensorFlow's do. So a tensor has two
// devices: the one that its operation ran on, and the one whose memory holds it.
//
// # Two eras
//
// Graphs are TensorFlow 1's, and so is what they print: the placement log and the error for a device that is not there
// name devices as ".../gpu:0" (devicetext.go). Eager calls are TensorFlow 2's, ".../device:GPU:0".
//
// # States
//
//	node      made -> placed (by each session for itself; never moved)
//	session   open -> closed
//	buffer    live, with a count of tensors -> freed, when the last one is released
//
// # Invariants
//
//  1. A node never changes, its inputs were made before it and are of the same graph, and its number is its place in the graph.
//  2. A call that fails changes nothing: no node and no name is added, no node is placed, no memory stays taken.
//  3. Placement depends on the nodes, their order, the devices and the soft flag alone.
//  4. A placed node's device has a kernel for it and satisfies its request; under soft placement it satisfies at least
//     the request's job, replica and task.
//  5. A run executes what its fetches and targets need, through inputs and control inputs, and nothing else, each node once and after
//     all that it needs, and copies a tensor to another device's memory at most once per memory. A node that is fed is not executed,
//     and nothing is executed for its sake.
//  6. During a run a tensor is held from its making to its last reader. After a run, failed or not, the run holds nothing; the
//     fetched tensors, in the first CPU's memory, are the caller's to release.
//  7. A buffer is freed exactly once, and no kernel reads one that is freed.
//
// # Locks
//
// A Graph's mutex guards its nodes and names; a Session's guards its placement, its log and whether it is closed. Neither is held while
// operations run, and they are never held together but Session before Graph. Nodes and Devices are immutable. A buffer's count is atomic.
package graph
