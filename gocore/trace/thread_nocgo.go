//go:build !cgo

package trace

import "syscall"

// thread names the calling thread by its number in the kernel.
func thread() uint64 { return uint64(syscall.Gettid()) }
