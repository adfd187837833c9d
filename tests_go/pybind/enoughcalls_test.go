//go:build !race

package pybind_test

// enoughCalls is up to how many combinations of arguments all are tried; of more, so many at random.
const enoughCalls = 20_000
