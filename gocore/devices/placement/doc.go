// SPDX-License-Identifier: Apache-2.0

// Package placement adapts the logical devices of a devmgr.Manager to package graph's Device: GPUs over their pools,
// CPUs over host memory.
//
// # Overview
//
// A Machine combines the Manager, whose limits and accounting apply to operations as to any other use, host memory and
// CPU arithmetic, and GPU arithmetic. Machine.Devices returns a graph.Devices of the first CPUs and GPUs. A session may
// see fewer GPUs than exist, and more CPUs: those share host memory anyway.
//
// # Invariants
//
//  1. A device owns nothing: it refers to resources of the Manager or the Memory. They account for everything that an
//     operation allocates, so after the operation their counters are what they were before.
//  2. A GPU device refers to a logical GPU by number. It also serves pools that the Manager rebuilds under that number;
//     if the number no longer exists, calls fail with InvalidArgument.
//
// # Locks
//
// None: all values are immutable.
package placement
