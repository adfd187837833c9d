// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cabi

import "time"

// Go opens the two files of its poller with the first timer, and ends the process if it cannot. Here, threads.c has
// just tried whether files can be opened; at the first allocation that waits, a program may have used up its limit.
func init() {
	time.AfterFunc(time.Hour, func() {}).Stop()
}
