package gpu

// CaptureLife is the life of a graph: from its capture until it, all that was instantiated of it and all their launches are done. Ended does not
// wait, and stays true.
type CaptureLife interface{ Ended() bool }

// Captures tells of streams whose work is captured as graphs, by whatever code of the process; facts 31 to 35.
type Captures interface {
	// StreamGetCaptureInfo tells the capture that a stream takes part in, by a number that no other one has had or will have; 0 for
	// none. It disturbs no capture.
	StreamGetCaptureInfo(ordinal int, stream Stream) (capture uint64, err error)
	// StreamGetCaptureLife gives the life of the graph that a stream is captured into.
	StreamGetCaptureLife(ordinal int, stream Stream) (CaptureLife, error)
}
