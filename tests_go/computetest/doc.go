// Package computetest is the conformance suite for gpu.Compute. It runs on every implementation: on the
// host's always, and on a GPU's library if there is a GPU.
package computetest
