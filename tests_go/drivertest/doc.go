// Package drivertest is the one conformance suite for gpu.Driver. It checks the numbered facts of package gpu, by number, on
// whatever driver it is given: a simulated machine, a real one, or a wrapper of either. What the facts leave open, it leaves open.
// TestMistakes is a second suite, for drivers that must refuse what CUDA leaves undefined.
//
// It asks for a few MiB at a time and gives everything back, so it may run on a GPU that others use.
package drivertest
