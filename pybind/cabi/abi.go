// SPDX-License-Identifier: Apache-2.0

//go:build cgo

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
// for them (backward.c). The chunk record has room for both, and bfc/stats.go has a row of counters for each holder.
//
// PyTorch, CuPy and Numba use the same entry (python/gpuconf/allocators). PyTorch and CuPy get the addresses of C
// functions and call them from any thread (torch.c, foreign.c). The logical GPU is that of the thread's scope. Without
// a scope, as in autograd's threads, it is the one that the stream stands for (devmgr/route.go), else the first one of
// the CUDA ordinal. Where PyTorch ignores the result, throw.c throws a C++ exception after Go has returned. It uses the
// functions of the C++ runtime that is already loaded, so that gpuconf needs no C++ runtime of its own and the
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
//     (pybind/cabi/abi.go), for which threads.c requires room for eight files, and refuses the call with
//     UnavailableError otherwise.
//   - Go's own environment variables (GOMEMLIMIT, GOGC, GODEBUG, ...): Go reads them when the core is loaded. A
//     malformed GOMEMLIMIT ends the process.
package cabi

// #cgo CFLAGS: -fexceptions
// #include <stdlib.h>
// #include <stddef.h>
// #include <stdint.h>
// #include "abi.h"
import "C"

import (
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
)

// A goroutine called from C stays on the caller's thread, so these use the thread that Python runs on.
func writeScope(word int64) { C.gcgo_scope_write(C.int64_t(word)) }
func readScope() int64      { return int64(C.gcgo_scope_read()) }

// Both sides of the border agree on the last tag, or this does not compile.
var _ = [1]struct{}{}[C.GCGO_OTHER_TAG-int(holder.Other)]

func writeTag(t holder.Tag) { C.gcgo_tag_write(C.uint16_t(t)) }
func readTag() holder.Tag   { return holder.Tag(C.gcgo_tag_read()) }
func readSite() uint32      { return uint32(C.gcgo_site_read()) }

func writeStacks(on bool) {
	value := int32(0)
	if on {
		value = 1
	}
	atomic.StoreInt32((*int32)(unsafe.Pointer(&C.gcgo_stacks)), value)
}

func writeGeneration(generation uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&C.gcgo_generation)), generation)
}

func writeCaptureInfo(function uintptr) { C.gcgo_capture_info_write(C.uintptr_t(function)) }

func idleFunction() uintptr { return uintptr(C.gcgo_idle_function()) }

func writeStopped() { atomic.StoreInt32((*int32)(unsafe.Pointer(&C.gcgo_stopped)), 1) }

//export gcgo_empty
func gcgo_empty(value C.int) C.int { return value }

//export gcgo_malloc
func gcgo_malloc(size C.size_t, device C.int, by C.uint16_t, stream C.uintptr_t, scope C.int64_t, known C.int) (
	addr C.uintptr_t) {
	var err error
	defer gate(&err)
	var given uint64
	given, err = malloc(uint64(size), int(device), holder.ID(by), scopeOf(int64(scope)), gpu.Stream(stream),
		devmgr.Known(known))
	return C.uintptr_t(given)
}

//export gcgo_free
func gcgo_free(addr, stream C.uintptr_t) {
	var err error
	defer gate(&err)
	err = free(uint64(addr), gpu.Stream(stream))
}

// gcgo_idle_bytes returns the bytes that the pools on a device have in no block.
//
//export gcgo_idle_bytes
func gcgo_idle_bytes(device C.int) (bytes C.uint64_t) {
	var err error
	defer gate(&err)
	if m, err := process.Shared().Manager(); err == nil {
		bytes = C.uint64_t(m.IdleBytes(int(device)))
	}
	return bytes
}

// malloc allocates on the logical GPU of the scope if it is on this device, else on the one that the stream belongs to,
// else on the device's first.
func malloc(size uint64, device int, by holder.ID, scope int64, stream gpu.Stream, known devmgr.Known) (uint64, error) {
	m, err := process.Shared().Manager()
	if err != nil {
		return 0, err
	}
	block, err := m.AllocateKnowing(device, int(scope), stream, known, size, by)
	return block.Addr, err
}

// free frees a block. stream is that of the block's last use, or null if that was the stream of the allocation.
func free(addr uint64, stream gpu.Stream) error {
	m, err := process.Shared().Manager()
	if err != nil {
		return err
	}
	if stream != gpu.StreamNull {
		return m.FreeOn(addr, stream)
	}
	return m.Free(addr)
}

//export gcgo_intern_tag
func gcgo_intern_tag(name *C.char) (number C.int) {
	var err error
	defer gate(&err)
	number = -1
	var t holder.Tag
	if t, err = holder.Intern(C.GoString(name)); err == nil {
		number = C.int(t)
	}
	return number
}

//export gcgo_add_stack
func gcgo_add_stack(text *C.char, length C.size_t) (site C.uint32_t) {
	var err error
	defer gate(&err)
	return C.uint32_t(process.Shared().AddStack(C.GoStringN(text, C.int(length))))
}

// gate is deferred first in every function that C calls: it catches panics, and stores the text of an error for
// gpuconf_last_error.
func gate(err *error) {
	process.Caught(recover(), err)
	if *err != nil {
		setError(*err)
	}
}

// setError stores an error's text for C, without the mark.
func setError(err error) {
	text := C.CString(process.Unmark(err))
	defer C.free(unsafe.Pointer(text))
	C.gcgo_set_error(text)
}

// call runs do with the device manager, behind the gate. It returns 1 on success; on failure it stores the error's text
// and returns 0.
func call(do func(*devmgr.Manager) error) (done C.int) {
	var err error
	defer func() {
		if err == nil {
			done = 1
		}
	}()
	defer gate(&err)
	var m *devmgr.Manager
	if m, err = process.Shared().Manager(); err == nil {
		err = do(m)
	}
	return 0
}

//export gcgo_record_stream
func gcgo_record_stream(addr, stream C.uintptr_t) C.int {
	return call(func(m *devmgr.Manager) error { return m.RecordStream(uint64(addr), gpu.Stream(stream)) })
}

//export gcgo_logical_stream
func gcgo_logical_stream(number C.int, stream *C.uintptr_t) C.int {
	return call(func(m *devmgr.Manager) error {
		own, err := m.StreamOf(int(number))
		*stream = C.uintptr_t(own)
		return err
	})
}

//export gcgo_region
func gcgo_region(addr C.uintptr_t, start *C.uintptr_t, size *C.size_t) C.int {
	return call(func(m *devmgr.Manager) error {
		begin, bytes, err := m.Region(uint64(addr))
		*start, *size = C.uintptr_t(begin), C.size_t(bytes)
		return err
	})
}

//export gcgo_trim
func gcgo_trim() C.int {
	return call(func(m *devmgr.Manager) error {
		_, err := m.Trim()
		return err
	})
}

//export gcgo_count_torch
func gcgo_count_torch(size C.size_t) C.int {
	return call(func(m *devmgr.Manager) error { return m.CountForeign(uint64(size)) })
}

//export gcgo_require_fraction
func gcgo_require_fraction(fraction C.double, device C.int) C.int {
	return call(func(m *devmgr.Manager) error { return m.RequireFraction(int(device), float64(fraction)) })
}

// gcgo_init lists the devices and creates the logical GPUs, unless they exist, with the variables of the caller's
// environment: Go's own copy is that of the start of the process.
//
//export gcgo_init
func gcgo_init(environment **C.char) (done C.int) {
	var err error
	defer gate(&err)
	if err = initialize(environ(environment)); err != nil {
		return 0
	}
	return 1
}

func initialize(env config.Env) error {
	p := process.Shared()
	if _, _, err := p.Enumerate(env); err != nil {
		return err
	}
	m, err := p.Initialize(env, "gpuconf_init()")
	if err != nil {
		return err
	}
	logical, err := m.LogicalDevices()
	if err != nil {
		return err
	}
	for _, d := range logical {
		if d.Type == "GPU" {
			return nil
		}
	}
	return status.Errorf(status.NotFound, "there is no GPU: %s. GPUCONF_SIMULATE=H100-80GB simulates one", m.WhyNoGPU())
}

// environ reads a list of NAME=VALUE that ends with NULL.
func environ(list **C.char) config.Env {
	env := config.Env{}
	for ; list != nil && *list != nil; list = (**C.char)(unsafe.Add(unsafe.Pointer(list), unsafe.Sizeof(*list))) {
		if name, value, found := strings.Cut(C.GoString(*list), "="); found {
			env[name] = strings.ToValidUTF8(value, "?")
		}
	}
	return env
}

// Take and GiveBack for C. They return the marked text of an error, which the caller frees, or NULL.

//export gcgo_take
func gcgo_take(number, nbytes C.int64_t, by C.uint16_t, scope C.int64_t, out *C.struct_gcgo_taken) *C.char {
	buffer, err := Take(int64(number), int64(nbytes), holder.ID(by), func() int64 { return scopeOf(int64(scope)) })
	*out = C.struct_gcgo_taken{
		address: C.uint64_t(buffer.Address), id: C.uint64_t(buffer.ID), gpu: C.int32_t(buffer.GPU),
		noticed: C.bool(buffer.Noticed),
	}
	return textOf(err)
}

//export gcgo_try_give_back
func gcgo_try_give_back(address, id C.uint64_t, tried *C.bool) *C.char {
	done, err := TryGiveBack(uint64(address), uint64(id))
	*tried = C.bool(done || err != nil) // also where a panic prevented it
	return textOf(err)
}

//export gcgo_give_back
func gcgo_give_back(address, id C.uint64_t) *C.char {
	return textOf(GiveBack(uint64(address), uint64(id)))
}

func textOf(err error) *C.char {
	if err == nil {
		return nil
	}
	return C.CString(err.Error())
}

// Go runs about as many threads at once as there are processors. If a limit leaves room for fewer, GOMAXPROCS is
// lowered: a single parallel product would otherwise start more threads at once than the reserve of threads.c has.
func init() {
	wanted := runtime.GOMAXPROCS(0)
	if most := int(C.gcgo_try_threads(C.int(wanted))); most < wanted {
		runtime.GOMAXPROCS(max(1, most))
	}
}

// Go opens the two files of its poller with the first timer, and ends the process if it cannot. Here, threads.c has
// just tried whether files can be opened; at the first allocation that waits, a program may have used up its limit.
func init() {
	time.AfterFunc(time.Hour, func() {}).Stop()
}
