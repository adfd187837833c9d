// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "calls.h"
// #include "library.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"gpuconf/gocore/machine/gpu"
)

// ContextRetain retains the primary context; CUDA creates it if it does not exist.
func (d *driver) ContextRetain(ordinal int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.deviceLocked(ordinal)
	for err == nil && g.changing {
		d.idle.Wait()
		g, err = d.deviceLocked(ordinal)
	}
	if err != nil {
		return err
	}
	if g.retains > 0 {
		g.retains++
		return nil
	}
	return d.firstRetainLocked(g)
}

// firstRetainLocked releases the lock while CUDA creates the context, which takes a while. Other callers that retain it
// wait.
func (d *driver) firstRetainLocked(g *device) error {
	g.changing = true
	d.mu.Unlock()
	answer := C.cudacall_retain(d.machine, g.number)
	d.mu.Lock()
	g.changing = false
	d.idle.Broadcast()
	if err := d.failure(answer.result, "cuDevicePrimaryCtxRetain of GPU %d", uint64(g.info.Ordinal)); err != nil {
		return err
	}
	g.retains, g.context = 1, uint64(answer.value)
	return nil
}

// ContextRelease decrements the retain count. The last release waits for calls in progress and frees what is left. If
// CUDA refuses to release the context, it stays retained.
func (d *driver) ContextRelease(ordinal int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.contextLocked(ordinal)
	if err != nil {
		return err
	}
	if g.retains > 1 {
		g.retains--
		return nil
	}
	g.changing = true
	for g.inside > 0 {
		d.idle.Wait()
	}
	d.mu.Unlock()
	err = d.dropContext(g)
	d.mu.Lock()
	g.changing = false
	d.idle.Broadcast()
	return err
}

// dropContext frees what a device still holds (invariant 6), and then releases its context. No call is inside the
// device, and none can enter.
//
// Destroying the context would free everything in it, but another library may keep the context alive. Failures to free
// are ignored: most likely the context has failed, and then nothing in it can be saved.
func (d *driver) dropContext(g *device) error {
	d.runEndings(g)
	d.mu.Lock()
	streams, events, memory, host := g.streams, g.events, g.reach, g.host
	g.streams, g.events, g.reach, g.host = map[gpu.Stream]struct{}{}, map[gpu.Event]struct{}{}, memory.onlyMapped(), nil
	d.mu.Unlock()
	context := C.uint64_t(g.context)
	for stream := range streams {
		C.cudacall_stream_destroy(d.machine, context, C.uint64_t(stream))
	}
	for event := range events {
		C.cudacall_event_destroy(d.machine, context, C.uint64_t(event))
	}
	for _, held := range memory {
		if !held.mapped {
			C.cudacall_mem_free(d.machine, context, C.uint64_t(held.begin))
		}
	}
	for _, held := range host {
		C.cudacall_host_free(d.machine, context, C.uint64_t(held.begin))
	}
	result := C.cudacall_release(d.machine, g.number)

	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failure(result, "cuDevicePrimaryCtxRelease of GPU %d", uint64(g.info.Ordinal)); err != nil {
		return err
	}
	g.retains, g.context = 0, 0
	return nil
}

// dropVirtual frees the mappings, handles and reservations that are left, in that order. No other call is in the
// driver.
func (d *driver) dropVirtual() (failed error) {
	note := func(result C.CUresult, what string, number uint64) {
		failed = errors.Join(failed, d.failure(result, what, number))
	}
	for addr, bytes := range d.mappings {
		note(C.cudacall_mem_unmap(d.machine, C.uint64_t(addr), C.uint64_t(bytes)), "cuMemUnmap at %#x", addr)
	}
	for handle := range d.handles {
		note(C.cudacall_mem_release(d.machine, C.uint64_t(handle)), "cuMemRelease of %#x", uint64(handle))
	}
	for addr, bytes := range d.reservations {
		note(C.cudacall_address_free(d.machine, C.uint64_t(addr), C.uint64_t(bytes)), "cuMemAddressFree at %#x", addr)
	}
	return failed
}

// notReachable returns the error for a range outside a device's reach.
func notReachable(g *device, addr, bytes uint64) error {
	return fmt.Errorf("%d bytes at %#x are not within one allocation, or within mappings with access, of GPU %d: %w",
		bytes, addr,
		g.info.Ordinal, gpu.ErrorInvalidValue)
}

var _ gpu.Native = (*driver)(nil)

// Version returns the newest CUDA version that the driver supports.
func (d *driver) Version() int { return int(d.version) }

// InContext runs work in a device's primary context.
func (d *driver) InContext(ordinal int, work func() error) error {
	g, err := d.enter(ordinal)
	if err != nil {
		return err
	}
	defer d.leave(g)
	err, failed := d.visit(g, work)
	if failed != nil {
		return failed
	}
	return err
}

// visit runs work in a device's context, which is not destroyed meanwhile. failed is set if the context could not be
// entered.
func (d *driver) visit(g *device, work func() error) (err, failed error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var visit C.struct_cuda_visit
	result := C.cudacall_enter(d.machine, C.uint64_t(g.context), &visit)
	if err := d.failure(result, "enter the context of GPU %d", uint64(g.info.Ordinal)); err != nil {
		return nil, err
	}
	defer C.cudacall_leave(&visit)
	return work(), nil
}

// AtContextEnd registers end to be called before the context ends.
func (d *driver) AtContextEnd(ordinal int, end func(entered bool)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.contextLocked(ordinal)
	if err != nil {
		return err
	}
	g.endings = append(g.endings, end)
	return nil
}

// runEndings calls the functions registered by AtContextEnd. No call is inside the device, and none can enter. Entering
// the context may report a failure of work queued earlier, so it is tried twice.
func (d *driver) runEndings(g *device) {
	d.mu.Lock()
	endings := g.endings
	g.endings = nil
	d.mu.Unlock()
	for _, end := range slices.Backward(endings) {
		inside := func() error { end(true); return nil }
		if _, failed := d.visit(g, inside); failed == nil {
			continue
		}
		if _, failed := d.visit(g, inside); failed != nil {
			end(false)
		}
	}
}

var _ gpu.Budgeted = (*driver)(nil)

// TellIdle says to gpuconf's guard, if the library is loaded through it, which C function returns the bytes that this
// process's pools on a device, an int, have in no block: they count as free in what programs ask. MemGetInfo does not
// count them.
func TellIdle(function uintptr) { C.cuda_guard_idle(C.uintptr_t(function)) }

// Budget returns the job's budget on a device, as gpuconf's guard counts it (gocore/lease/guard). A budget may name a
// MIG instance or its card.
func (d *driver) Budget(ordinal int) (gpu.Budget, bool) {
	if ordinal < 0 || ordinal >= len(d.devices) {
		return gpu.Budget{}, false
	}
	var c C.struct_card_figures
	g := d.devices[ordinal]
	if C.cuda_guard_figures(&g.instance, &c) == 0 && C.cuda_guard_figures(&g.card, &c) == 0 {
		return gpu.Budget{}, false
	}
	return gpu.Budget{
		LimitBytes: uint64(c.limit), PoolBytes: uint64(c.pools), OutsideBytes: uint64(c.outside),
		FreeBytes: uint64(c.left),
	}, true
}

// BudgetProcesses returns the processes of the job that have memory of a device.
func (d *driver) BudgetProcesses(ordinal int) (list []gpu.Process) {
	if ordinal < 0 || ordinal >= len(d.devices) {
		return nil
	}
	var all [1024]C.struct_card_process
	g := d.devices[ordinal]
	count := C.cuda_guard_processes(&g.instance, &all[0], C.int(len(all)))
	if count == 0 {
		count = C.cuda_guard_processes(&g.card, &all[0], C.int(len(all)))
	}
	for _, p := range all[:count] {
		list = append(list, gpu.Process{PID: int(p.pid), UsedBytes: uint64(p.used), BytesKnown: true, GPUInstanceID: -1,
			ComputeInstanceID: -1})
	}
	return list
}
