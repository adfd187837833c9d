// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "calls.h"
import "C"

import (
	"runtime"
	"slices"

	"gpuconf/gocore/machine/gpu"
)

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
