// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cublas

// #include "library.h"
import "C"

import (
	"errors"
	"sync"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// handle is a cuBLAS handle in one GPU's context.
type handle struct {
	sync.Mutex
	number C.uint64_t // guarded by the mutex; 0 for none
}

// handleOf returns a GPU's handle, open or not.
func (l *Library) handleOf(ordinal int) *handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.handles[ordinal]
	if h == nil {
		h = &handle{}
		l.handles[ordinal] = h
	}
	return h
}

// openLocked creates the cuBLAS handle unless it is open. The GPU's context is current.
func (h *handle) openLocked(l *Library, version string, ordinal int) error {
	if h.number != 0 {
		return nil
	}
	created := C.cublascall_create()
	if created.status != 0 {
		return Status(created.status).failed(version, ordinal, "creating a handle")
	}
	if err := l.driver.AtContextEnd(ordinal, h.end); err != nil {
		C.cublascall_destroy(created.handle)
		return err
	}
	h.number = created.handle
	return nil
}

// end destroys the handle, before its context ends. In a context that has failed there is nothing to destroy.
func (h *handle) end(entered bool) {
	h.Lock()
	defer h.Unlock()
	if entered {
		C.cublascall_destroy(h.number)
	}
	h.number = 0
}

// run loads the library, calls work with the GPU's handle in its context, and waits for what work queued, also on
// failure.
func (c compute) run(what string, work func(handle C.uint64_t) C.cublasStatus_t) error {
	l := c.library
	version, err := l.load()
	if err != nil {
		return err
	}
	return l.driver.InContext(c.ordinal, func() error {
		h := l.handleOf(c.ordinal)
		h.Lock()
		defer h.Unlock()
		if err := h.openLocked(l, version, c.ordinal); err != nil {
			return err
		}
		answer := work(h.number)
		waited := c.wait()
		switch answer {
		case 0:
			return waited
		case C.MISSING_64:
			return status.Errorf(status.Unimplemented, "%s with a size or a step beyond 2147483647 needs cuBLAS 12 "+
				"or newer, but the loaded version is %s", what, version)
		}
		return errors.Join(Status(answer).failed(version, c.ordinal, what), waited)
	})
}

// wait returns when the queued work is done, even if it failed: the memory that it used is about to be reused. A wait
// that fails may not have waited, so it is tried again. If that fails too, the context has failed and no work is
// running in it.
func (c compute) wait() error {
	err := c.library.driver.StreamSynchronize(c.ordinal, gpu.StreamNull)
	if err != nil {
		_ = c.library.driver.StreamSynchronize(c.ordinal, gpu.StreamNull)
	}
	return err
}
