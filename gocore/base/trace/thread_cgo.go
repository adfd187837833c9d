// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package trace

// thread identifies the calling thread by its thread pointer. With cgo, every thread belongs to the C library. On
// x86-64, the first word at that pointer is the pointer itself; on arm64, the pointer is in a register.
func thread() uint64
