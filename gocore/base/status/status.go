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

import (
	"errors"
	"fmt"
)

// Code is a kind of failure. The zero value is Unknown: an unclassified error.
type Code int

// The kinds, with the built-in Python exception that each is also an instance of.
const (
	Unknown            Code = iota // RuntimeError
	InvalidArgument                // ValueError
	InvalidType                    // TypeError
	FailedPrecondition             // RuntimeError
	ResourceExhausted              // MemoryError
	NotFound                       // LookupError
	AlreadyExists                  // RuntimeError
	Unavailable                    // RuntimeError
	Unimplemented                  // NotImplementedError
	Internal                       // RuntimeError; a bug in gpuconf itself

	// InvalidArgument and FailedPrecondition by checks that TensorFlow makes in Python: it raises Python's own class
	// there.
	Value
	State
)

var names = [...]string{
	Unknown: "UNKNOWN", InvalidArgument: "INVALID_ARGUMENT", InvalidType: "INVALID_TYPE",
	FailedPrecondition: "FAILED_PRECONDITION", ResourceExhausted: "RESOURCE_EXHAUSTED", NotFound: "NOT_FOUND",
	AlreadyExists: "ALREADY_EXISTS", Unavailable: "UNAVAILABLE", Unimplemented: "UNIMPLEMENTED", Internal: "INTERNAL",
	Value: "VALUE", State: "STATE",
}

// String returns the canonical name, such as INVALID_ARGUMENT. It is passed to Python.
func (c Code) String() string {
	if c < 0 || int(c) >= len(names) {
		return names[Unknown]
	}
	return names[c]
}

// Error is a failure of a known kind. Its text is for the user who made the call: what happened, the
// numbers, and the next step.
type Error struct {
	Code Code  // the kind of failure
	Err  error // the message; it wraps the cause, if there is one
}

// Error returns the message without the kind.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error of kind code. %w works as in fmt.Errorf.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// CodeOf returns the kind of err: that of the outermost Error in its chain, or Unknown.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Unknown
}
