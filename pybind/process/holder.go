// SPDX-License-Identifier: Apache-2.0

package process

import "gpuconf/gocore/base/holder"

// Threads is what C keeps for each thread, and what it reads without entering Go. Package cabi supplies it at start,
// because this package has no C.
type Threads struct {
	Tag    func() holder.Tag // of the calling thread
	Site   func() uint32     // of the calling thread's allocation, while stacks are on
	Stacks func(on bool)     // switches stacks on or off, for all threads

	Generation  func(uint32)           // stores State.Generation, for all threads
	CaptureInfo func(function uintptr) // stores gpu.CaptureInfo's function, 0 for none
	Idle        uintptr                // the function for cuda.TellIdle, 0 for none
	Stopped     func()                 // notes that a panic stopped the core, for all threads
}

var threads = Threads{Tag: func() holder.Tag { return 0 }, Site: func() uint32 { return 0 }, Stacks: func(bool) {},
	Generation: func(uint32) {}, CaptureInfo: func(uintptr) {}, Stopped: func() {}}

// UseThreads replaces what does nothing. It is called once, at start.
func UseThreads(t Threads) { threads = t }

// Holder returns who holds what gpuconf itself allocates for a call on this thread.
func Holder() holder.ID { return holder.Of(holder.Gpuconf, threads.Tag()) }
