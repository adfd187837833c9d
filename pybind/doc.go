// Package pybind is what gopy binds: the flat functions that Python calls.
//
// # Rules of this border
//
//  1. Functions only. Arguments and results are int64, string and bool; structures cross as JSON; objects as numbers that Go checks.
//     (gopy checks no unsigned number, leaks for a lone error, and its handles crash the process when they are stale.)
//  2. Results are always (T, error), the error named err.
//  3. The first line is "defer process.Gate(&err)": no panic reaches Python, every error has its kind.
//  4. Nothing here blocks for long: WaitForFree and WaitJob take a timeout, and Python loops, so that Ctrl-C works. What takes long is a job.
//  5. No environment is read here: Python passes it in, because Go sees only that of the process's start.
//
// The functions are thin: decode, call, encode. What they do is in gocore and pybind/process.
package pybind

import (
	"encoding/json"

	"gpuconf/gocore/config"
	"gpuconf/gocore/devmgr"
	"gpuconf/gocore/status"
	"gpuconf/pybind/process"
)

// manager gives the devices of this process.
func manager() (*devmgr.Manager, error) { return process.Shared().Manager() }

// encode makes JSON of what is known to have some.
func encode(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", status.Errorf(status.Internal, "encoding %T: %w", value, err)
	}
	return string(text), nil
}

// decode reads JSON that our own Python wrote.
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
