// SPDX-License-Identifier: Apache-2.0

package bfc

// Timeline reports how far a device is with the work of its streams. The allocator calls it with its mutex held, and
// only once a second stream is used. The exceptions are Trim, Close and releasing idle regions, which call it with a
// single stream too.
//
// A mark is a point in a stream. The allocator numbers the marks of a stream number from 1 up, and never uses a
// number twice, even if the call failed or the stream number was reused for another stream in between.
//
// A program may destroy a stream at any time, and the device does not report it. So the allocator calls Mark and Follow
// only for a lasting stream, or for the one that the current call names. In place of a mark in any other stream, it
// waits for the whole device.
type Timeline interface {
	// Lasting reports whether the stream exists until the allocator is closed.
	Lasting(stream Stream) bool

	// Mark queues a mark behind everything that is queued in the stream.
	Mark(stream Stream, mark uint64) error

	// Passed returns the last mark of the stream that the device has reached, or 0. It does not wait. Everything queued
	// before that mark is done. It is called often and should cost no more than a memory load.
	Passed(stream Stream) (mark uint64)

	// Follow makes all later work of a stream wait until the device has reached a mark of another stream. The mark was
	// queued.
	Follow(stream, other Stream, mark uint64) error

	// Sync waits until the device has reached a mark that was queued. It fails if the device never will.
	Sync(stream Stream, mark uint64) error

	// SyncAll waits until everything queued so far in any stream is done.
	SyncAll() error
}
