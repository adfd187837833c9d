//go:build cgo && !race

package pybind_test

// enoughCalls: up to this many combinations of arguments, all are tried; beyond that, this many at random.
const enoughCalls = 20_000
