// SPDX-License-Identifier: Apache-2.0

// Package devmgr turns a machine and a configuration into logical devices, each GPU with its own memory pool, and
// serves every call that uses them.
//
// # Overview
//
// A Manager owns one gpu.Driver and one config.State. Package config validates the configuration, bfc does the
// accounting, suballoc sizes regions and the driver provides memory. The Manager connects them, and is the only part
// that uses the driver.
//
// # States
//
//	enumerated   New has listed the physical devices; the configuration can change
//	initialized  Initialize has built the logical devices; the configuration is frozen
//	closed       Close has released everything; every call that can fail returns FailedPrecondition
//
// If Initialize fails, the Manager stays enumerated and the machine is unchanged; Initialize may be called again.
//
// # Invariants
//
//  1. gpus is empty before initialization. Between initialization and Close only Join changes it, and only while no
//     block is live.
//  2. Every byte taken from the driver belongs to a region of exactly one pool, and owners contains that region. (If
//     the driver refuses to free a region, it is removed from owners but keeps counting against its pool's limit.)
//  3. A context is retained once for each logical GPU and released in Close.
//  4. Close fails while there are live blocks or captured graphs with memory, unless it is forced: no memory is
//     released silently.
//  5. Nothing is queued in a stream that is being captured: the driver is queried before each mark and wait. The driver
//     is never given the handle of a stream that may have been destroyed, which is any but a lasting one outside of the
//     calls that name it: NVIDIA's driver crashes on it.
//  6. Memory that was allocated for a captured stream, or freed from one, belongs to the capture until the driver
//     reports that its graph is destroyed.
//  7. Memory is returned to the driver only when no queued work is known to touch it. Close waits for all streams that
//     used a pool; if it cannot wait for one, it frees the pool's regions nevertheless, but not the page that marks are
//     written to.
//
// # Locks
//
// mu guards state, logical, gpus, layout and closed. Calls that use memory (statistics, copies and so on) hold it for
// reading; configuration and life-cycle calls hold it for writing. A successful allocation or free takes no lock of the
// Manager (hot.go): Close seals every pool before it checks that all are idle, so no block appears in between, and a
// sealed or closed pool sends the caller to the slow path, which takes mu.
//
// Lock order: mu, a pool's captures, a recorder (memoryinfo.go), a pool's allocator, the driver. owners and the notices
// have leaf locks. WaitForFree waits for other threads, and holds no lock while it does. Trim, Close and Join, and an
// allocation that needs memory of a busy stream, may wait for the device with locks held.
//
// # Captures and the ledger
//
// While a stream is being captured into a CUDA graph, its memory belongs to the capture (devmgr/captures.go,
// bfc/streams_capture.go). What an allocation asks the driver about its stream, and what it need not ask, is in
// devmgr/streamnumbers.go and pybind/cabi/lasting.c. Memory that the capture frees is not reused outside it until the
// driver reports, through a user object that the graph holds, that nothing of the graph is left.
//
// Where there is a ledger (docs/ledger.md), the process publishes its pools there when they are built
// (process.State.publishFrom): bfc writes bytes in use, peak, limit and reserved bytes into a mapped slot wherever it
// updates its own counters. A lease does not touch the pools: gocore/lease/ledger decides it, and Python sets visible
// devices and limits.
package devmgr
