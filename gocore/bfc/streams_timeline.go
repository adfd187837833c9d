package bfc

// Timeline tells how far a device is with the work of its streams. The allocator calls it with its mutex held, and only once a
// second stream is used; but Trim and giving back idle regions ask it of a single stream too.
//
// A mark is a place in a stream. The allocator numbers the marks of a stream number from 1 up, and never gives a number twice, even
// if the call failed or the stream number was used for another stream in between.
type Timeline interface {
	// Mark queues a mark behind everything that is queued in the stream.
	Mark(stream Stream, mark uint64) error

	// Passed gives the last mark of the stream that the device has come to, 0 for none. It does not wait. Everything queued before
	// that mark is done. It is called often, and should be a load.
	Passed(stream Stream) (mark uint64)

	// Follow makes all later work of a stream wait until the device has come to a mark of another one. The mark was queued.
	Follow(stream, other Stream, mark uint64) error

	// Sync waits until the device has come to a mark that was queued.
	Sync(stream Stream, mark uint64) error
}
