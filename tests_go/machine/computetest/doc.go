// Package computetest is the conformance suite for gpu.Compute. It runs on every implementation: always on the host's,
// and on a GPU library's if there is a GPU.
package computetest
