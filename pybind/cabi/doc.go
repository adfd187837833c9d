// SPDX-License-Identifier: Apache-2.0

// Package cabi contains gpuconf's C symbols: the allocator for C callers, and each thread's device scope.
//
// The symbols of python/gpuconf/include/gpuconf.h are C functions (abi.c), which call the Go functions of abi.go. A
// thread's scope is a C thread-local: for Python, pybind/_gpuconf/scope.c writes it. gpuconf_malloc reads it without
// entering Go.
//
// # Allocations of C programs and of libraries
//
// gpuconf_malloc (pybind/cabi/abi.c) checks the fork flag, reads the thread's scope and tag, and enters Go at
// devmgr.Manager.AllocateKnowing.
//
// Each block counts for a holder (gocore/base/holder): the library, which the entry point knows, and the thread's tag,
// a number that C keeps beside the scope. PyTorch's threads for the backward pass have the tag of the thread that waits
// for them (backward.c). The chunk record has room for both, and bfc/usage.go has a row of counters for each holder.
//
// PyTorch, CuPy and Numba use the same entry (python/gpuconf/allocators). PyTorch and CuPy get the addresses of C
// functions and call them from any thread (torch.c, foreign.c). The logical GPU is that of the thread's scope. Without
// a scope, as in autograd's threads, it is the one that the stream stands for (devmgr/ownstream.go), else the first one
// of the CUDA ordinal. Where PyTorch ignores the result, throw.c throws a C++ exception after Go has returned. It uses
// the functions of the C++ runtime that is already loaded, so that gpuconf needs no C++ runtime of its own and the
// exception is PyTorch's own class.
//
// In PyTorch's mode segments, PyTorch keeps its own allocator. The slots through which its libc10_cuda.so calls
// cudaMalloc and cudaFree point to segments.c, which enters Go there, too, with PyTorch's current stream.
//
// # Fork
//
// Go does not survive fork(). Python's guard (_core/native.py) and C's (abi.c, a pthread_atfork handler whose flag is
// checked before every call into Go) turn every call in a child into a clear error. A child that was forked before the
// first call loads its own core. Leaving a block that the parent entered does nothing in the child.
//
// A lock that another thread holds during the fork stays locked in the child. Module locks are therefore created by
// module_lock (_core/fork.py), which replaces them in the child, and no other lock is taken there. A module that
// another thread is importing during the fork stays locked as well. So gpuconf imports nothing before it has loaded the
// core, and a child imports nothing before it has refused the call. Public names are the exception: gpuconf/__init__.py
// imports them on first use under a lock for which a fork waits (import_lock), and the rest of them with the core,
// except those that no signal handler uses (_ON_FIRST_USE); a child refuses these before it imports them.
// tests_py/core/fork_matrix.py tries every operation of a child against every background operation. Add a line there
// for each new operation that takes a lock.
//
// # Subinterpreters
//
// One interpreter's modules keep track of what is in use, and the process has a single core. So the extension module
// uses multi-phase initialization in each interpreter that imports it, and refuses in all but the main one
// (pybind/cabi/module.h).
//
// # What cannot be handled
//
//   - Go's fatal errors: out of host memory in Go itself, a deadlock of all goroutines, concurrent map writes, a
//     stack overflow. They end the process with Go's report.
//   - A nil dereference in Go if faulthandler.enable() was called after the first gpuconf call: faulthandler's
//     signal handler then runs first. (No such dereference is known; the gate is a second line of defense.)
//   - C objects that claim host memory they do not have, and files that are truncated while mapped. (An address
//     that Python code made up, through __array_interface__ or ctypes, is checked against /proc/self/maps first.)
//   - A C caller that uses memory after freeing it. Simulated memory stays mapped until its machine closes, so a
//     stale view reads wrong data but does not crash.
//   - SIGCHLD in a program that blocks it and waits for it with sigwait: Go's threads receive it. Other signals
//     are not affected.
//   - Two Go libraries in one process: Go does not support that. gpuconf is one shared object and must not be
//     copied.
//   - ulimit -v: Go and the simulated cards reserve address space (twice a card's memory) without taking memory.
//     If the limit is too tight for a card, the call raises an error. If it is too tight for Go itself (about 1
//     GB), the first call that needs the core ends the process with Go's report.
//   - Threads: if the system refuses to create one (RLIMIT_NPROC, a container's limit), Go ends the process.
//     pybind/cabi/threads.c therefore keeps a reserve of eight threads and refuses calls with UnavailableError
//     while few are left. Go starts only when the reserve is complete, and uses at most as many processors as
//     there are threads for. One case remains: other processes use up the limit later, on a machine with many
//     processors, and a single call starts more threads at once than the reserve holds.
//   - Open files: Go ends the process if it cannot open the two files of its poller. It opens them at its start
//     (pybind/cabi/threads.go), for which threads.c requires room for eight files, and refuses the call with
//     UnavailableError otherwise.
//   - Go's own environment variables (GOMEMLIMIT, GOGC, GODEBUG, ...): Go reads them when the core is loaded. A
//     malformed GOMEMLIMIT ends the process.
package cabi
