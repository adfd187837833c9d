// SPDX-License-Identifier: Apache-2.0

package cabi

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/pybind/process"
)

// What the extension module's C code (pybind/_gpuconf) calls without gopy: allocating and freeing a buffer. The errors
// are marked, as those of gopy's functions are.

// Taken is what Take allocated. Size 0 has id 0.
type Taken struct {
	Address, ID uint64 // where the block is, and which of the blocks that had the address
	GPU         int    // the logical GPU's number
	Noticed     bool   // notices are pending
}

// Take allocates memory on the logical GPU that LogicalGPU returns.
func Take(number, nbytes int64, by holder.ID, scope func() int64) (buffer Taken, err error) {
	defer process.Gate(&err)
	m, gpu, err := LogicalGPU(number, scope)
	if err != nil {
		return buffer, err
	}
	if nbytes < 0 {
		return buffer, status.Errorf(status.InvalidArgument, "nbytes must be at least 0, but got %d", nbytes)
	}
	block, err := m.Allocate(gpu, uint64(nbytes), by)
	if err != nil {
		return buffer, err
	}
	return Taken{block.Addr, block.ID, gpu, m.HasNotices()}, nil
}

// GiveBack frees a block, if it is still the one with this allocation id.
func GiveBack(address, id uint64) (err error) {
	defer process.Gate(&err)
	m, err := process.Shared().Manager()
	if err != nil {
		return err
	}
	return m.FreeID(address, id)
}

// TryGiveBack is GiveBack for a caller that holds the GIL: it returns false, and has done nothing, where GiveBack may
// wait.
func TryGiveBack(address, id uint64) (tried bool, err error) {
	defer process.Gate(&err)
	m, err := process.Shared().Manager()
	if err != nil {
		return true, err
	}
	return m.TryFreeID(address, id)
}

// LogicalGPU returns the device manager and the number of the GPU for a call: the one that it names, else the one of
// the thread's scope, else GPU:0.
func LogicalGPU(number int64, scope func() int64) (*devmgr.Manager, int, error) {
	m, err := process.Shared().Manager()
	if err != nil {
		return nil, 0, err
	}
	if number < 0 {
		number = scope()
	}
	if number == ScopeMissing {
		return nil, 0, status.Errorf(status.InvalidArgument, "this thread's device scope names an unknown GPU. "+
			"See gpuconf.config.list_logical_devices() for the available devices")
	}
	return m, int(max(number, 0)), nil
}

// The values of a thread's scope other than the number of a logical GPU.
const (
	NoScope      = -1 // no scope, or one that names a CPU
	ScopeMissing = -2 // a scope that names an unknown GPU
)

// A thread's scope is one word: the generation in the upper half, the number in the lower. A reset cannot change the
// words of other threads, so a word of an earlier generation counts as no scope.

// SetScope sets the calling thread's scope to a logical GPU of the given generation of devices.
func SetScope(generation uint32, number int64) {
	writeScope(int64(generation)<<32 | int64(uint32(int32(number))))
}

// Scope returns the calling thread's scope.
func Scope() int64 { return scopeOf(readScope()) }

func scopeOf(word int64) int64 {
	if uint32(word>>32) != process.Shared().Generation() {
		return NoScope
	}
	return int64(int32(uint32(word)))
}

// SetTag sets the calling thread's tag.
func SetTag(t holder.Tag) { writeTag(t) }

// Tag returns the calling thread's tag; 0 for none.
func Tag() holder.Tag { return readTag() }

func init() {
	process.UseThreads(process.Threads{Tag: Tag, Site: readSite, Stacks: writeStacks, Generation: writeGeneration,
		CaptureInfo: writeCaptureInfo, Idle: idleFunction(), Stopped: writeStopped})
}
