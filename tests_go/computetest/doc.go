// Package computetest holds what gpuconf relies on in a gpu.Compute as one suite of tests, run on every implementation: the
// host's always, a GPU's library where there is a GPU.
package computetest
