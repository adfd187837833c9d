// SPDX-License-Identifier: Apache-2.0

package gpu

// CaptureLife tracks the lifetime of a captured graph: from its capture until the graph, everything instantiated from
// it and all launches are done. Ended does not wait. Once true, it stays true.
type CaptureLife interface{ Ended() bool }

// Captures reports on streams whose work is being captured as graphs, by any code in the process; facts 31 to 35.
type Captures interface {
	// StreamGetCaptureInfo returns the id of the capture that a stream takes part in, or 0 if it is not being captured.
	// Ids are never reused. The call does not affect any capture.
	StreamGetCaptureInfo(ordinal int, stream Stream) (capture uint64, err error)
	// StreamGetCaptureLife returns the lifetime of the graph that a stream is being captured into.
	StreamGetCaptureLife(ordinal int, stream Stream) (CaptureLife, error)
}
