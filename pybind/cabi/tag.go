// SPDX-License-Identifier: Apache-2.0

package cabi

import (
	"gpuconf/gocore/holder"
	"gpuconf/pybind/process"
)

// SetTag sets the calling thread's tag.
func SetTag(t holder.Tag) { writeTag(t) }

// Tag returns the calling thread's tag; 0 for none.
func Tag() holder.Tag { return readTag() }

func init() {
	process.UseThreads(process.Threads{Tag: Tag, Site: readSite, Stacks: writeStacks, Generation: writeGeneration,
		CaptureInfo: writeCaptureInfo, Stopped: writeStopped})
}
