// Package drivertest is the conformance suite for gpu.Driver. It checks the numbered facts of package gpu, by number,
// on any driver: a simulated machine, a real one, or a wrapper of either. It does not test what the facts leave
// unspecified. TestMistakes is a second suite, for drivers that must refuse what CUDA leaves undefined.
//
// It allocates a few MiB at a time and frees everything, so it may run on a shared GPU.
package drivertest
