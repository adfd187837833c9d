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
// (placer.go). Eager calls follow TensorFlow 2: ".../device:GPU:0".
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
//
// # From a call in Python to here
//
// c = gpuconf.matmul(a, b), under with gpuconf.device("GPU:1"):
//
//  1. tensors/operations.py converts non-tensor arguments (tensors/arrays.py is the only module that needs
//     NumPy) and passes their handles and the thread's scope on.
//  2. pybind.Execute calls process.Work.Execute, which looks up the tensors and reads soft placement, log and
//     policy from the configuration.
//  3. graph.Devices.Execute checks shapes and types, finds the device, copies inputs from other memories,
//     allocates the result on the device (placement calls devmgr.Manager.Allocate, so the limit and the
//     accounting apply), and computes through gpu.Compute. On the CPU and on simulated GPUs large products are a
//     BLAS's (gocore/machine/blas), which the first one looks for, and all else is Go and gonum
//     (gocore/machine/host). On a real GPU it is cuBLAS (gocore/machine/cublas), which the first operation
//     loads. The cuBLAS workspace is a block of the same pool. cuBLAS runs in the GPU's context through
//     gpu.Native, which cuda implements; pybind/process/work.go connects the two.
//  4. The new tensor is stored in a table under a handle. Python's Tensor owns the handle from the start and
//     releases it when the tensor is dropped.
//
// A session works in the same way. compat/v1/_graph.py adds nodes to a graph.Graph. OpenSession makes sure that the
// devices exist (devmgr.Manager.Join: the first session builds the pools; later sessions join them, or rebuild them
// while they are empty). RunSession writes results directly into NumPy arrays. The placement log returns as lines,
// which Python writes to sys.stderr. A run executes the nodes that its fetches and targets need, including control
// inputs, in the order in which they were created. A fed value replaces its node. Shapes that depend on what is fed
// (gocore/tf/graph/infer.go) are determined before the first node runs; Python reads them (SessionShapes) before it
// allocates the results. While a tensor is held or a session runs, a reset is refused.
package graph
