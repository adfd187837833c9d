// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
)

// A setting is a switch of config.State by name: how to read it and how to store a JSON value. null is None.
type setting struct {
	get func(*config.State) (any, error)
	set func(s *config.State, value string) error
}

var settings = map[string]setting{
	"soft_device_placement": {
		func(s *config.State) (any, error) { return s.SoftPlacement(true) },
		decoded((*config.State).SetSoftPlacement),
	},
	"log_device_placement": {
		func(s *config.State) (any, error) { return s.LogPlacement() },
		decoded((*config.State).SetLogPlacement),
	},
	"synchronous_execution": {
		func(s *config.State) (any, error) { return s.SynchronousExecution(), nil },
		decoded((*config.State).SetSynchronousExecution),
	},
	"device_policy": {
		func(s *config.State) (any, error) { return s.DevicePolicy(), nil },
		checked(func(s *config.State, policy *devicePolicy) error {
			if policy == nil {
				return s.SetDevicePolicy(nil, "None")
			}
			return s.SetDevicePolicy(&policy.Name, policy.Repr)
		}),
	},
	"intra_op_parallelism_threads": {
		func(s *config.State) (any, error) { return s.IntraOpThreads() },
		checked((*config.State).SetIntraOpThreads),
	},
	"inter_op_parallelism_threads": {
		func(s *config.State) (any, error) { return s.InterOpThreads() },
		checked((*config.State).SetInterOpThreads),
	},
	"jit": {
		func(s *config.State) (any, error) { return s.Jit() },
		checked(func(s *config.State, on *bool) error { s.SetJit(on != nil && *on); return nil }),
	},
	"optimizer_options": {
		func(s *config.State) (any, error) { return s.OptimizerOptions() },
		checked(func(s *config.State, options *map[string]*int64) error { return s.SetOptimizerOptions(*options) }),
	},
}

// checked wraps a setter of values as a setter of JSON.
func checked[T any](set func(*config.State, *T) error) func(*config.State, string) error {
	return func(s *config.State, text string) error {
		var value *T
		if err := decode(text, &value); err != nil {
			return err
		}
		return set(s, value)
	}
}

// decoded is checked for a setter that cannot fail.
func decoded[T any](set func(*config.State, *T)) func(*config.State, string) error {
	return checked(func(s *config.State, value *T) error { set(s, value); return nil })
}

// devicePolicy is a policy's name, "" if the argument is not a string, and Python's repr() of the argument.
type devicePolicy struct {
	Name string `json:"name"`
	Repr string `json:"repr"`
}

func findSetting(name string) (setting, error) {
	entry, ok := settings[name]
	if !ok {
		return entry, status.Errorf(status.Internal, "unknown setting %q", name)
	}
	return entry, nil
}

// Setting returns the value of a switch as JSON.
func Setting(name string) (value string, err error) {
	defer process.Gate(&err)
	entry, err := findSetting(name)
	if err != nil {
		return "", err
	}
	var got any
	err = process.Shared().Switches(func(s *config.State) (err error) {
		got, err = entry.get(s)
		return err
	})
	if err != nil {
		return "", err
	}
	return encode(got)
}

// SetSetting stores a JSON value in a switch.
func SetSetting(name string, value string) (done bool, err error) {
	defer process.Gate(&err)
	entry, err := findSetting(name)
	if err != nil {
		return false, err
	}
	return true, process.Shared().Switches(func(s *config.State) error { return entry.set(s, value) })
}
