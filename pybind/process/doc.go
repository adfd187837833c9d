// SPDX-License-Identifier: Apache-2.0

// Package process holds the process-wide state of gpuconf: the machine that it runs on and the devices of that machine.
//
// The packages below define values that a test can construct. This package makes one of them global, because Python
// modules, C callers and sessions of a process share one set of pools and their accounting.
//
// # States
//
//	empty       no Manager: devices have not been listed, or Reset was called
//	enumerated  a Manager lists the physical devices
//	initialized its logical devices exist
//	broken      a panic was caught at the gate: every later call that needs the devices fails with Internal
//
// # Locks
//
// mu guards the choice of the machine and the lifetime of the Manager. Calls on the hot path load the Manager
// atomically and take only its own locks.
//
// # All locks of gpuconf, outermost first
//
//  1. Python's lock in _core/runtime.py. It guards listing, initializing, resetting, and what a reset must not
//     split, such as entering a scope or starting a measurement. Using memory never takes it.
//  2. The GIL, which the stub releases before Go begins.
//  3. process.State.mu
//  4. process.Work.mu
//  5. devmgr.Manager.mu
//  6. A pool's captures.
//  7. trace.Recorder.mu
//  8. bfc.Allocator.mu
//  9. suballoc's lock.
//  10. The driver's lock.
//
// gocore/lease/ledger has its own: those of a claim or of the published figures, then the ledger's, then the grant
// lock, which is the flock of a file and excludes other processes. A process that finds the grant lock taken sleeps on
// a word of the ledger's wake file (a futex), and an unlock wakes the longest waiting ones. Publishing takes these
// locks below devmgr.Manager.mu.
//
// The locks of tags' names (gocore/base/holder), of a recording's stacks (trace.Sites) and of the answer of NVML
// (process/cards.go) come last: nothing is locked while they are held, except NVML's own.
//
// cuBLAS runs inside the context with the lock of its handle held; no lock above the driver's is taken then. A
// successful allocation or free takes no lock of the manager: before a pool is closed it is sealed, and a sealed pool
// refuses (devmgr/hot.go). Other calls that use memory take devmgr.Manager.mu for reading; configuration and life-cycle
// calls take it for writing. Go never calls back into Python. The C code in pybind/_gpuconf releases the GIL around its
// calls of Go, too, except for a free that does not wait; the GIL guards its own lists. C takes the GIL to note a stack
// (pybind/cabi/stack.c), before it enters Go, and only where the caller holds no lock that a thread with the GIL may
// want. In Go only WaitForFree and WaitJob block, for at most 100 ms and without a lock. Python calls them in a loop,
// so that Ctrl-C works. A process that waits for a ledger sleeps in C (pybind/_gpuconf/nap.c), for at most a second a
// call and without the GIL; signal handlers run at least every 100 ms. Longer work (reading a file, a plan, the events
// of a recording) is a job (pybind/process/jobs.go) on its own goroutine, and Python fetches the result in pages.
// Python owns jobs and recordings through a Handle (_core/handle.py), which ends them when it is dropped.
package process
