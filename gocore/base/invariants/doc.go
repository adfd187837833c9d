// SPDX-License-Identifier: Apache-2.0

// Package invariants holds checks that cost nothing when they are off.
//
// With the build tag "invariants", which every test run sets, Check panics on a broken invariant. Without it,
// Enabled is a false constant, and the compiler removes the call together with its arguments, provided that
// the caller writes
//
//	if invariants.Enabled {
//		invariants.Check(cond, "format", args...)
//	}
//
// The gate between Python and Go (pybind/process/gate.go) catches such a panic, and then refuses further work.
package invariants

import "fmt"

// Check panics with the formatted text when ok is false. Guard calls with Enabled.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
