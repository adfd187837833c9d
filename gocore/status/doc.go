// Package status holds the kinds of failure that gpuconf tells apart, and the one error type that carries them.
//
// The kinds are TensorFlow's canonical codes. A kind decides which Python class a user catches (the table is
// in python/gpuconf/errors.py), so it is chosen where the failure is understood and never changed on the way up.
// InvalidType is ours: Python's TypeError has no canonical code.
package status
