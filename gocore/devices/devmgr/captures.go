// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
)

// captures tracks the stream captures of a pool, each from the first allocation for a stream that is being captured
// until its graph is destroyed.
//
// Captures are not announced, and a past one leaves no trace, so each allocation queries its stream, except the default
// stream, which cannot be captured. C callers query it before they enter Go (pybind/cabi/abi.c), which is faster. The
// allocated memory belongs to an owner made for the capture (bfc.NewCapture), one for each stream that takes part. The
// driver reports when the graph, its instances and all launches are gone (gpu.CaptureLife); reclaim polls for that.
//
// Nothing is queued in a stream while it is captured, nor in the default stream while that would wait for it
// (errIfCaptured, invariant 5).
type captures struct {
	driver gpu.Driver
	device gpu.Device

	alive  atomic.Int32  // the number of captures; while it is 0, this load is the only cost
	looked atomic.Uint32 // counts calls of reclaimSometimes

	mu   sync.Mutex // taken before the allocator's
	byID map[uint64]*capture
}

// capture is one capture and its graph, guarded by captures.mu.
type capture struct {
	life   gpu.CaptureLife
	owners map[bfc.Stream]bfc.Stream // by the number of the captured stream
}

// lookEvery is the number of allocations between two polls.
const lookEvery = 64

// of returns the id of the capture that a stream takes part in, or 0.
func (c *captures) of(stream gpu.Stream) (id uint64, err error) {
	id, err = c.driver.StreamGetCaptureInfo(c.device.Ordinal, stream)
	switch {
	case isNoStream(err):
		return 0, errNoStream(stream, c.device, err)
	case err != nil:
		return 0, status.Errorf(status.Unknown, "cannot query whether stream %#x is being captured: %w",
			uint64(stream), err)
	}
	return id, nil
}

// owner returns the owner of memory allocated for a stream, with its number, that takes part in a capture (invariant
// 6).
func (c *captures) owner(id uint64, stream gpu.Stream, number bfc.Stream, allocator *bfc.Allocator) (
	bfc.Stream, error) {
	var err error
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.byID[id]
	if known == nil {
		if known, err = c.beginLocked(id, stream); err != nil {
			return 0, err
		}
	}
	owner, there := known.owners[number]
	if !there {
		if owner, err = allocator.NewCapture(number); err != nil {
			return 0, err
		}
		known.owners[number] = owner
	}
	return owner, nil
}

func (c *captures) beginLocked(id uint64, stream gpu.Stream) (*capture, error) {
	life, err := c.driver.StreamGetCaptureLife(c.device.Ordinal, stream)
	if err != nil {
		code := status.Unknown
		if errors.Is(err, gpu.ErrorNotSupported) {
			code = status.Unimplemented
		}
		return nil, status.Errorf(code, "cannot allocate for stream %#x while it is being captured: "+
			"the driver does not report when the graph is destroyed (%w)", uint64(stream), err)
	}
	if c.byID == nil {
		c.byID = map[uint64]*capture{}
	}
	c.byID[id] = &capture{life: life, owners: map[bfc.Stream]bfc.Stream{}}
	c.alive.Add(1)
	return c.byID[id], nil
}

// reclaim ends the captures whose graphs are destroyed, and reports whether there were any.
func (c *captures) reclaim(allocator *bfc.Allocator) (some bool) {
	if c.alive.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, one := range c.byID {
		if !one.life.Ended() {
			continue
		}
		for number, owner := range one.owners {
			if allocator.EndCapture(owner) == nil {
				delete(one.owners, number)
				some = true
			}
		}
		if len(one.owners) == 0 {
			delete(c.byID, id)
			c.alive.Add(-1)
		}
	}
	return some
}

// reclaimSometimes is reclaim for frequent callers: it polls once in lookEvery calls.
func (c *captures) reclaimSometimes(allocator *bfc.Allocator) {
	if c.alive.Load() > 0 && c.looked.Add(1)%lookEvery == 0 {
		c.reclaim(allocator)
	}
}

// errIfCaptured returns an error if a stream is being captured and so must not be used. The default stream waits for
// blocking streams, so it must not be used while one of them is being captured.
func errIfCaptured(driver gpu.Driver, device gpu.Device, stream gpu.Stream) error {
	id, err := driver.StreamGetCaptureInfo(device.Ordinal, stream)
	if err != nil {
		return fmt.Errorf("cannot queue work in stream %#x: %w", uint64(stream), err)
	}
	if id != 0 {
		return fmt.Errorf("cannot queue work in stream %#x: it is being captured", uint64(stream))
	}
	return nil
}
