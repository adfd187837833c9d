// SPDX-License-Identifier: Apache-2.0

// Package graph places and executes operations on tensors, in graphs and as eager calls.
//
// # Overview
//
// A Devices value is the list of logical devices that operations can run on. A Graph is an append-only list of nodes. A
// Session places a graph's nodes on devices and executes what is fetched. Devices.Execute places and executes a single
// operation.
//
// A kernel implements an operation for one element type on one device type (kernels.go). A GPU kernel can keep its
// operands in host memory; the int32 kernels do, as in TensorFlow. So a tensor has two devices: the one that its
// operation ran on, and the one whose memory holds it.
//
// # Device names
//
// Graphs follow TensorFlow 1: their placement log, and the error for an unknown device, name devices as ".../gpu:0"
// (devicetext.go). Eager calls follow TensorFlow 2: ".../device:GPU:0".
//
// # States
//
//	node      created -> placed (separately by each session; never moved)
//	session   open -> closed
//	buffer    live, with a reference count of tensors -> freed, when the last one is released
//
// # Invariants
//
//  1. A node is immutable, its inputs were created before it in the same graph, and its number is its index in the
//     graph.
//  2. A call that fails changes nothing: it adds no node and no name, places no node, and leaks no memory.
//  3. Placement depends only on the nodes, their order, the devices and the soft-placement flag.
//  4. The device of a placed node has a kernel for it and satisfies its request; under soft placement it satisfies at
//     least the request's job, replica and task.
//  5. A run knows the shapes of all its tensors before it executes a node.
//  6. A run executes exactly the nodes that its fetches and targets depend on, through inputs and control inputs, each
//     once and after its dependencies, and copies a tensor to another device's memory at most once per memory. A fed
//     node is not executed, nor is a node that only fed nodes depend on.
//  7. During a run a tensor is held from its creation to its last read. After a run, failed or not, the run holds
//     nothing; the caller must release the fetched tensors, which are in the first CPU's memory.
//  8. A buffer is freed exactly once, and no kernel reads a freed buffer.
//
// # Locks
//
// A Graph's mutex guards its nodes and names; a Session's guards its placement, its log and its closed flag. Neither is
// held while operations run. Lock order: Session, then Graph. Nodes and Devices are immutable. A buffer's reference
// count is atomic.
package graph
