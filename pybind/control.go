// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/blas"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
)

// Simulate selects the machine to simulate; "" leaves the choice to the environment. It returns the previous and the
// new choice, one per line.
func Simulate(spec string) (choices string, err error) {
	defer process.Gate(&err)
	before, now, err := process.Shared().Simulate(spec)
	return before + "\n" + now, err
}

// Specification returns the specification of a machine as Simulate returns it, and changes nothing.
func Specification(machine string) (full string, err error) {
	defer process.Gate(&err)
	spec, err := models.ParseSpec(machine)
	if err != nil {
		return "", err
	}
	return spec.String(), nil
}

// Reset releases the devices and discards the configuration. It returns true.
func Reset() (done bool, err error) {
	defer process.Gate(&err)
	return true, process.Shared().Reset()
}

// Enumerate lists the physical devices: {"physical": [[name, type], ...], "simulated": spec}.
func Enumerate(env string) (devices string, err error) {
	defer process.Gate(&err)
	variables, err := decodeEnv(env)
	if err != nil {
		return "", err
	}
	m, spec, err := process.Shared().Enumerate(variables)
	if err != nil {
		return "", err
	}
	physical := [][2]string{}
	return sendJSON(map[string]any{"physical": &physical, "simulated": spec}, m.Inspect(func(s *config.State) error {
		for _, d := range s.Physical() {
			physical = append(physical, [2]string{d.Name, d.Type})
		}
		return nil
	}))
}

// Initialize builds the logical devices: {"logical": [[name, type, full name, CUDA ordinal], ...], "host_visible":
// bool}. origin is the caller, as "file:line (call)".
func Initialize(env string, origin string) (devices string, err error) {
	defer process.Gate(&err)
	variables, err := decodeEnv(env)
	if err != nil {
		return "", err
	}
	m, err := process.Shared().Initialize(variables, origin)
	if err != nil {
		return "", err
	}
	return encodeLogical(m)
}

// LogicalDevices lists the logical devices that a session has created, as Initialize does. It initializes nothing, so
// the list may be empty.
func LogicalDevices() (devices string, err error) {
	defer process.Gate(&err)
	return onManager(encodeLogical)
}

// encodeLogical returns {"logical": [[name, type, full name, ordinal], ...], "host_visible", "published": as
// State.Published}.
func encodeLogical(m *devmgr.Manager) (string, error) {
	list, err := m.LogicalDevices()
	if err != nil {
		return "", err
	}
	logical := [][4]any{}
	for _, d := range list {
		logical = append(logical, [4]any{d.Name, d.Type, d.FullName, d.Ordinal})
	}
	return encode(map[string]any{"logical": logical, "host_visible": m.HostVisible(),
		"published": process.Shared().Published()})
}

// MalformedVariables returns a text for each variable of TensorFlow that cannot be parsed, and would be ignored when
// the pools are built: {variable: text, ...}.
func MalformedVariables(env string) (texts string, err error) {
	defer process.Gate(&err)
	variables, err := decodeEnv(env)
	if err != nil {
		return "", err
	}
	byName := map[string]string{}
	for name, notices := range variables.Malformed() {
		for _, notice := range notices {
			byName[name] = notice.Text
		}
	}
	return encode(byName)
}

// DrainNotices returns and clears the pending notices for the user: [[level, text], ...].
func DrainNotices() (notices string, err error) {
	defer process.Gate(&err)
	list := [][2]string{}
	for _, n := range process.Shared().DrainNotices() {
		list = append(list, [2]string{n.Level, n.Text})
	}
	return encode(list)
}

// DescribeBLAS looks for the library that multiplies matrices in host memory, as the first large product does: choice
// is GPUCONF_BLAS, and folders are the folders from which Python imports modules, one per line. The result is
// {"library": name, "version": ..., "path": ..., "threads": n, "complaints": [line, ...]}; the name is "" if there is
// none.
func DescribeBLAS(choice string, folders string) (about string, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return "", err
	}
	description, err := blas.New(choice, strings.FieldsFunc(folders, func(r rune) bool { return r == '\n' })).Describe()
	return sendJSON(map[string]any{
		"library": description.Library, "version": description.Version, "path": description.Path,
		"threads": description.Threads, "complaints": append([]string{}, description.Complaints...),
	}, err)
}

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
	return sendJSON(got, err)
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
