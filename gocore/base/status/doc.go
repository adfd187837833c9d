// SPDX-License-Identifier: Apache-2.0

// Package status defines the kinds of failure that gpuconf distinguishes, and the error type that carries them.
//
// The kinds are TensorFlow's canonical codes. A kind determines which Python class a user catches (the table is
// in python/gpuconf/errors.py), so it is chosen where the failure is understood, and callers do not change it.
// InvalidType is gpuconf's own: Python's TypeError has no canonical code.
package status
