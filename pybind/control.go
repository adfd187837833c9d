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
func (calls) Simulate(spec string) (choices string, err error) {
	before, now, err := process.Shared().Simulate(spec)
	return before + "\n" + now, err
}

// Specification returns the specification of a machine as Simulate returns it, and changes nothing.
func (calls) Specification(machine string) (full string, err error) {
	spec, err := models.ParseSpec(machine)
	if err != nil {
		return "", err
	}
	return spec.String(), nil
}

// Reset releases the devices and discards the configuration.
func (calls) Reset() error { return process.Shared().Reset() }

// physicalDevices is the physical devices, each as [name, type], and the specification of a simulated machine.
type physicalDevices struct {
	Devices   [][2]string
	Simulated string
}

// Enumerate lists the physical devices.
func (calls) Enumerate(env config.Env) (listed physicalDevices, err error) {
	m, spec, err := process.Shared().Enumerate(env)
	if err != nil {
		return listed, err
	}
	listed.Simulated = spec
	return listed, m.Inspect(func(s *config.State) error {
		for _, d := range s.Physical() {
			listed.Devices = append(listed.Devices, [2]string{d.Name, d.Type})
		}
		return nil
	})
}

// logicalDevices is the logical devices, each as [name, type, full name, CUDA ordinal], whether the host can read their
// memory, and State.Published.
type logicalDevices struct {
	Devices     [][4]any
	HostVisible bool
	Published   int
}

// Initialize builds the logical devices. origin is the caller, as "file:line (call)".
func (calls) Initialize(env config.Env, origin string) (listed logicalDevices, err error) {
	m, err := process.Shared().Initialize(env, origin)
	if err != nil {
		return listed, err
	}
	return calls{}.LogicalDevices(m)
}

// LogicalDevices lists the logical devices that a session has created, as Initialize does. It initializes nothing, so
// the list may be empty.
func (calls) LogicalDevices(m *devmgr.Manager) (listed logicalDevices, err error) {
	list, err := m.LogicalDevices()
	if err != nil {
		return listed, err
	}
	for _, d := range list {
		listed.Devices = append(listed.Devices, [4]any{d.Name, d.Type, d.FullName, d.Ordinal})
	}
	listed.HostVisible, listed.Published = m.HostVisible(), process.Shared().Published()
	return listed, nil
}

// MalformedVariables returns a text for each variable of TensorFlow that cannot be parsed, or excludes the CPU, by
// variable.
func (calls) MalformedVariables(env config.Env) (texts map[string]string, err error) {
	texts = map[string]string{}
	for name, notices := range env.Malformed() {
		for _, notice := range notices {
			texts[name] = notice.Text
		}
	}
	return texts, nil
}

// DrainNotices returns and clears the pending notices for the user: [[level, text], ...].
func (calls) DrainNotices() (notices [][2]string, err error) {
	for _, n := range process.Shared().DrainNotices() {
		notices = append(notices, [2]string{n.Level, n.Text})
	}
	return notices, nil
}

// DescribeBLAS looks for the library that multiplies matrices in host memory, as the first large product does: choice
// is GPUCONF_BLAS, and folders are the folders from which Python imports modules, one per line.
func (calls) DescribeBLAS(choice string, folders string) (blas.About, error) {
	return blas.New(choice, strings.FieldsFunc(folders, func(r rune) bool { return r == '\n' })).Describe()
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
func (calls) Setting(name string) (value any, err error) {
	entry, err := findSetting(name)
	if err != nil {
		return nil, err
	}
	return value, process.Shared().Switches(func(s *config.State) (err error) {
		value, err = entry.get(s)
		return err
	})
}

// SetSetting stores a JSON value in a switch.
func (calls) SetSetting(name string, value string) error {
	entry, err := findSetting(name)
	if err != nil {
		return err
	}
	return process.Shared().Switches(func(s *config.State) error { return entry.set(s, value) })
}
