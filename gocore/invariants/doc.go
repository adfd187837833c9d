// Package invariants holds checks that cost nothing when they are off.
//
// Build with the tag "invariants" (as every test run does) and Check panics on a broken promise; without
// it, Enabled is a false constant and the compiler drops the call together with its arguments, provided
// that the caller writes
//
//	if invariants.Enabled {
//		invariants.Check(cond, "format", args...)
//	}
//
// A panic from here is caught at the border (pybind/gate.go), which then refuses further work.
package invariants

import "fmt"

// Check panics with the formatted text when ok is false. Guard calls with Enabled.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
