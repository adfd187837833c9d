package cabi

import "gpuconf/pybind/process"

// What a thread's scope is beside the number of a logical GPU.
const (
	NoScope      = -1 // none, or one that names a CPU
	ScopeMissing = -2 // one that names a GPU that is not there
)

// A thread's scope is kept as one word: the runtime's generation above, the number below. A reset can't reach the words of other
// threads, so a word of an earlier generation counts as no scope.

// SetScope makes a logical GPU of a generation of devices the calling thread's scope.
func SetScope(generation uint32, number int64) {
	writeScope(int64(generation)<<32 | int64(uint32(int32(number))))
}

// Scope gives the calling thread's scope.
func Scope() int64 { return scopeOf(readScope()) }

func scopeOf(word int64) int64 {
	if uint32(word>>32) != process.Shared().Generation() {
		return NoScope
	}
	return int64(int32(uint32(word)))
}
