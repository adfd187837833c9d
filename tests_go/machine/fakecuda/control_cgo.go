//go:build cgo && linux

package fakecuda

// #cgo CFLAGS: -std=gnu11 -Wall -Wextra -Wno-unused-parameter
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "control.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"gpuconf/gocore/machine/gpu"
)

// Driver controls the fake driver that this process has loaded.
type Driver struct{}

// Attach finds it. Without LD_LIBRARY_PATH it fails, or finds the machine's own driver.
func Attach() (Driver, error) {
	if complaint := C.attach(); complaint != nil {
		return Driver{}, errors.New(C.GoString(complaint))
	}
	return Driver{}, nil
}

// Restart clears the driver's state, as in a new process; it reads the environment again. Earlier contexts must not be
// used any more.
func (Driver) Restart() { C.control_restart() }

// Fail makes a call with that name fail with result, once: the nth from now on, counted from 0. "*" is any call.
func (Driver) Fail(name string, nth, result int) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	C.control_fail(text, C.ulong(nth), C.int(result))
}

// Clear removes injected failures that have not happened.
func (Driver) Clear() { C.control_clear() }

// Fired counts the injected failures that have happened.
func (Driver) Fired() int { return int(C.control_fired()) }

// FiredName returns the call that failed last.
func (Driver) FiredName() string { return C.GoString(C.control_fired_name()) }

// Count counts the calls of a name, or of all ("*").
func (Driver) Count(name string) int {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return int(C.control_count(text))
}

// Delay delays each copy and fill in its stream.
func (Driver) Delay(microseconds int) { C.control_delay(C.uint(microseconds)) }

// Live counts objects that were not released, by kind.
func (Driver) Live() map[string]int {
	live := map[string]int{}
	for _, what := range []string{"allocations", "host", "handles", "mappings", "reservations", "streams", "events",
		"retains", "graphs"} {
		text := C.CString(what)
		if count := int(C.control_live(text)); count != 0 {
			live[what] = count
		}
		C.free(unsafe.Pointer(text))
	}
	return live
}

// The functions below are the calling thread's own use of CUDA, as another library's would be. Lock the goroutine to
// its thread.

// Context is a context of another library, or nil.
type Context unsafe.Pointer

// Current returns the thread's current context.
func (Driver) Current() Context { return Context(C.control_current()) }

// Depth returns how many contexts are on the thread's stack.
func (Driver) Depth() int { return int(C.control_depth()) }

// SetCurrent replaces the thread's current context.
func (Driver) SetCurrent(context Context) error {
	return asError("cuCtxSetCurrent", C.control_set_current(unsafe.Pointer(context)))
}

// Create creates a context and makes it current.
func (Driver) Create(device int) (Context, error) {
	var context unsafe.Pointer
	err := asError("cuCtxCreate", C.control_create(C.int(device), &context))
	return Context(context), err
}

// Destroy ends a context.
func (Driver) Destroy(context Context) error {
	return asError("cuCtxDestroy", C.control_destroy(unsafe.Pointer(context)))
}

// Retain retains the primary context.
func (Driver) Retain(device int) (Context, error) {
	var context unsafe.Pointer
	err := asError("cuDevicePrimaryCtxRetain", C.control_retain(C.int(device), &context))
	return Context(context), err
}

// Release releases the primary context.
func (Driver) Release(device int) error {
	return asError("cuDevicePrimaryCtxRelease", C.control_release(C.int(device)))
}

// Alloc allocates device memory in the current context.
func (Driver) Alloc(bytes uint64) (uint64, error) {
	var addr C.ulonglong
	err := asError("cuMemAlloc", C.control_alloc(C.ulonglong(bytes), &addr))
	return uint64(addr), err
}

// Free frees it.
func (Driver) Free(addr uint64) error { return asError("cuMemFree", C.control_free(C.ulonglong(addr))) }

// Captures of streams of the current context, and their graphs, by CUDA's handles. The modes are CUDA's: calls that a
// capture does not record are forbidden to all threads (0), to the capturing thread (1), or to none (2).

// BeginCapture starts to capture a stream.
func (Driver) BeginCapture(stream uint64, mode int) error {
	return asError("cuStreamBeginCapture", C.control_begin_capture(C.ulonglong(stream), C.int(mode)))
}

// EndCapture ends the capture and returns its graph.
func (Driver) EndCapture(stream uint64) (graph uint64, err error) {
	var made C.ulonglong
	err = asError("cuStreamEndCapture", C.control_end_capture(C.ulonglong(stream), &made))
	return uint64(made), err
}

// GraphPieces counts the pieces of work in a graph.
func (Driver) GraphPieces(graph uint64) int { return int(C.control_graph_pieces(C.ulonglong(graph))) }

// Instantiate creates an executable.
func (Driver) Instantiate(graph uint64) (exec uint64, err error) {
	var made C.ulonglong
	err = asError("cuGraphInstantiate", C.control_instantiate(C.ulonglong(graph), &made))
	return uint64(made), err
}

// Launch queues a graph.
func (Driver) Launch(exec, stream uint64) error {
	return asError("cuGraphLaunch", C.control_launch(C.ulonglong(exec), C.ulonglong(stream)))
}

// GraphDestroy ends a graph.
func (Driver) GraphDestroy(graph uint64) error {
	return asError("cuGraphDestroy", C.control_graph_destroy(C.ulonglong(graph)))
}

// ExecDestroy ends an executable.
func (Driver) ExecDestroy(exec uint64) error {
	return asError("cuGraphExecDestroy", C.control_exec_destroy(C.ulonglong(exec)))
}

func asError(call string, result C.int) error {
	if result == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", call, gpu.Result(result))
}

// Copy reads a byte of device memory from a device's primary context, as another library would, and returns CUDA's
// result.
func (Driver) Copy(device int, addr uint64) int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return int(C.control_copy(C.int(device), C.ulonglong(addr)))
}
