//go:build cgo

package trace

// thread names the calling thread: its thread pointer. With cgo every thread is one of the C library's, and the first word
// behind that pointer is the pointer itself on x86-64; on arm64 the pointer has a register.
func thread() uint64
