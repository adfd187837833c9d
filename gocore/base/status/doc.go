// SPDX-License-Identifier: Apache-2.0

// Package status defines the kinds of failure that gpuconf distinguishes, and the error type that carries them.
//
// The kinds are TensorFlow's canonical codes. A kind determines which Python class a user catches (the table is
// in python/gpuconf/errors.py), so it is chosen where the failure is understood, and callers do not change it.
// InvalidType is gpuconf's own: Python's TypeError has no canonical code.
//
// # From a driver to a Python class
//
// A CUresult becomes a gpu.Result, then an Error with a Code, then one marked string at the gate (pybind/process), then
// a class of gpuconf.errors, each with a built-in class as its base: InvalidArgumentError is a ValueError,
// InvalidTypeError a TypeError, FailedPreconditionError a RuntimeError, ResourceExhaustedError a MemoryError,
// NotFoundError a LookupError and UnimplementedError a NotImplementedError; the others are RuntimeErrors. VALUE and
// STATE, checks that TensorFlow makes in Python, are InvalidArgumentError and FailedPreconditionError, marked
// (_core/built_in_errors.py). DEADLINE_EXCEEDED is only raised by Python: a lease or a ledger's lock did not come in
// time.
//
// Mistakes of the caller are errors at the public edge. A broken invariant panics in Go. The gate turns the panic into
// InternalError and refuses all further work, because the accounting is no longer reliable.
package status
