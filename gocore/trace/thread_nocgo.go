// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package trace

import "syscall"

// thread identifies the calling thread by its kernel thread id.
func thread() uint64 { return uint64(syscall.Gettid()) }
