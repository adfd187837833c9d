// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/devices/devmgr"
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
	err = m.Inspect(func(s *config.State) error {
		for _, d := range s.Physical() {
			physical = append(physical, [2]string{d.Name, d.Type})
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return encode(map[string]any{"physical": physical, "simulated": spec})
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
	m, err := process.Shared().Manager()
	if err != nil {
		return "", err
	}
	return encodeLogical(m)
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
