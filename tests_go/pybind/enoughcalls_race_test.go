//go:build race

package pybind_test

// enoughCalls is less under the race detector, which makes a call some ten times as slow and looks for something else.
const enoughCalls = 1_000
