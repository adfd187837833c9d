// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cabi

// #include "abi.h"
import "C"

import (
	"runtime"
	"time"
)

// Go runs about as many threads at once as there are processors. If a limit leaves room for fewer, GOMAXPROCS is
// lowered: a single parallel product would otherwise start more threads at once than the reserve of threads.c has.
func init() {
	wanted := runtime.GOMAXPROCS(0)
	if most := int(C.gcgo_try_threads(C.int(wanted))); most < wanted {
		runtime.GOMAXPROCS(max(1, most))
	}
}

// Go opens the two files of its poller with the first timer, and ends the process if it cannot. Here, threads.c has
// just tried whether files can be opened; at the first allocation that waits, a program may have used up its limit.
func init() {
	time.AfterFunc(time.Hour, func() {}).Stop()
}
