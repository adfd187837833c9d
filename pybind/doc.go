// SPDX-License-Identifier: Apache-2.0

// Package pybind contains the flat functions that gopy binds for Python.
//
// # Rules
//
//  1. Functions only. Arguments and results are int64, string and bool; structures are passed as JSON, mostly as
//     messages of package wire, objects as numbers that Go checks. (gopy does not check unsigned numbers, leaks if a
//     function returns only an error, and its handles crash the process when stale.)
//  2. Results are always (T, error), with the error named err.
//  3. The first line is "defer process.Gate(&err)": no panic reaches Python, and every error has a kind.
//  4. No function blocks for long: WaitForFree and WaitJob take a timeout, and Python loops, so that Ctrl-C works. Long
//     work is a job.
//  5. No function reads the environment: Python passes it in, because Go sees only the environment at the start of the
//     process.
//
// The functions are thin: decode, call, encode. The logic is in gocore and pybind/process.
package pybind

import (
	"encoding/json"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// manager returns the device manager of this process.
func manager() (*devmgr.Manager, error) { return process.Shared().Manager() }

// given calls use with what find returns, unless that fails.
func given[T, R any](find func() (T, error), use func(T) (R, error)) (result R, err error) {
	value, err := find()
	if err != nil {
		return result, err
	}
	return use(value)
}

// onManager calls use with the device manager.
func onManager[R any](use func(*devmgr.Manager) (R, error)) (R, error) { return given(manager, use) }

// toInt64 converts a result.
func toInt64[T ~int | ~uint64 | ~uint16](n T, err error) (int64, error) { return int64(n), err }

// send returns a result as a message of package wire.
func send(message any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return wire.Encode(message)
}

// sendJSON returns a result as JSON.
func sendJSON(value any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return encode(value)
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

func decodeEnv(text string) (env config.Env, err error) {
	err = decode(text, &env)
	return env, err
}
