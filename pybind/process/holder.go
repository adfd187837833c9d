package process

import "gpuconf/gocore/holder"

// tagOfThread returns the calling thread's tag. It is set once, at start.
var tagOfThread = func() holder.Tag { return 0 }

// ReadTagsWith sets the function that returns the calling thread's tag. Package cabi calls it at start: the tag is in C, and
// this package has no C.
func ReadTagsWith(tag func() holder.Tag) { tagOfThread = tag }

// Holder returns who holds what gpuconf itself allocates for a call on this thread.
func Holder() holder.ID { return holder.Of(holder.Gpuconf, tagOfThread()) }
