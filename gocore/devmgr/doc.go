// Package devmgr turns a machine and a configuration into logical devices with a memory pool each, and answers every
// question about them.
//
// # The idea
//
// A Manager owns one gpu.Driver and one config.State. config decides, bfc keeps books, suballoc sizes regions, the driver
// hands out memory; the Manager is where they meet and the only place that meets the machine.
//
// # States
//
//	enumerated   New has listed the physical devices; the configuration can change
//	initialised  Initialize has built the logical devices; the configuration is frozen
//	closed       Close has given everything back; every call that can fail does, with FailedPrecondition
//
// A failed Initialize leaves the Manager enumerated and the machine as it was; it may be called again.
//
// # Invariants
//
//  1. gpus is empty before initialisation. Between it and Close only Join changes it, and only while no block is live.
//  2. Every byte taken from the driver belongs to a region of exactly one pool, and owners knows that region. (One that the
//     driver refuses to take back is no region any more, but counts against its pool's limit for good.)
//  3. A context is retained once for each logical GPU and released in Close.
//  4. Close with live blocks, or with captured graphs that have memory, is refused unless it is forced: nobody's memory goes away silently.
//  5. Nothing is queued in a stream while it is captured, nor in one that was destroyed: before each mark and wait the driver is asked.
//  6. What is allocated for a captured stream, and what was freed of it, is the capture's until the driver has told that its graph is gone.
//
// # Locks
//
// mu guards state, logical, gpus, layout and closed. Statistics, copies and the rest that uses memory take it for reading, configuration
// and life-cycle for writing. An allocation or a free that succeeds takes no lock of the Manager at all (hot.go): Close seals every pool
// before it looks whether all are idle, so no block appears in between, and a sealed or closed pool sends the caller to mu.
// Order: mu, then the lock of a pool's captures, then a recorder's lock (record.go), then a pool's own, then the driver's. owners and the notices have locks of their own that are leaves.
// WaitForFree is the only call that blocks, and holds no lock while it does.
package devmgr
