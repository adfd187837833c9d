//go:build cgo && race

package pybind_test

// enoughCalls is smaller under the race detector, which makes a call about ten times as slow and checks something else.
const enoughCalls = 1_000
