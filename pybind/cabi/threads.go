//go:build cgo

package cabi

// #include "abi.h"
import "C"

import "runtime"

// Go runs as many threads at once as there are processors, and a few. Where a limit leaves less room than that, it gets fewer: a
// single parallel product would take more threads at once than the reserve of threads.c has.
func init() {
	wanted := runtime.GOMAXPROCS(0)
	if most := int(C.gcgo_try_threads(C.int(wanted))); most < wanted {
		runtime.GOMAXPROCS(max(1, most))
	}
}
