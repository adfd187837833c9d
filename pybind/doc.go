// SPDX-License-Identifier: Apache-2.0

// Package pybind contains the functions that Python calls: methods of calls, with Go's types. For each of them flat.go,
// which is generated, has the flat function that gopy binds.
//
// # Rules
//
//  1. Flat functions only cross. Their arguments and results are int64, string and bool; structures are passed as JSON,
//     mostly as messages of package wire, objects as numbers that Go checks. (gopy does not check unsigned numbers,
//     leaks if a function returns only an error, and its handles crash the process when stale.)
//  2. Their results are always (T, error), with the error named err.
//  3. Their first line is "defer process.Gate(&err)": no panic reaches Python, and every error has a kind. After a
//     panic they are refused, but for those that need no devices.
//  4. No function blocks for long: WaitForFree and WaitJob take a timeout, and Python loops, so that Ctrl-C works. Long
//     work is a job.
//  5. No function reads the environment: Python passes it in, because Go sees only the environment at the start of the
//     process.
//
// The methods are thin. The logic is in gocore and pybind/process.
package pybind

import (
	"encoding/json"

	"gpuconf/gocore/base/status"
	"gpuconf/pybind/wire"
)

// calls has the functions that Python calls.
type calls struct{}

// receive reads a message of Python's; no text is the zero value.
func receive[T any](text string) (message T, err error) {
	if text != "" {
		err = wire.Decode(text, &message)
	}
	return message, err
}

// toInt64 converts a result.
func toInt64[T ~int | ~uint64 | ~uint16 | ~uintptr](n T, err error) (int64, error) {
	return int64(n), err
}

// send returns a result as a message of package wire.
func send(message any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return wire.Encode(message)
}

// encode returns a value as JSON.
func encode(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", status.Errorf(status.Internal, "encoding %T: %w", value, err)
	}
	return string(text), nil
}

// decode reads JSON written by our own Python code.
func decode(text string, value any) error {
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return status.Errorf(status.Internal, "decoding %T: %w", value, err)
	}
	return nil
}
