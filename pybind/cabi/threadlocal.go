// SPDX-License-Identifier: Apache-2.0

package cabi

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/pybind/process"
)

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
