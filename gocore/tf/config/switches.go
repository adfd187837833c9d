// SPDX-License-Identifier: Apache-2.0

package config

import (
	"gpuconf/gocore/base/status"
)

// switches are the settings that are not specific to a device. A nil pointer is None, the default.
type switches struct {
	softPlacement *bool
	logPlacement  *bool
	jit           bool
	optimizer     map[string]*int64 // as set; a nil value is None

	intraOpThreads *int64
	interOpThreads *int64

	devicePolicy         string // "" is the default
	synchronousExecution *bool
}

// TakeSwitches copies the switches of draft, a State without devices that holds what was set before the devices were
// listed.
func (s *State) TakeSwitches(draft *State) { s.switches = draft.Clone().switches }

// SoftPlacement reports whether an operation may run on another device than requested. By default that is allowed only
// in eager execution. Like every getter that reads the configuration as a whole, it returns Evaluate's error.
func (s *State) SoftPlacement(eager bool) (bool, error) {
	return evaluated(s, valueOr(s.switches.softPlacement, eager))
}

// evaluated returns a value, or Evaluate's error.
func evaluated[T any](s *State, value T) (result T, err error) {
	if err := s.Evaluate(); err != nil {
		return result, err
	}
	return value, nil
}

// SetSoftPlacement may be called at any time; nil restores the default.
func (s *State) SetSoftPlacement(enabled *bool) { s.switches.softPlacement = clonePointer(enabled) }

// LogPlacement reports whether placements are logged; by default they are not. It returns Evaluate's error.
func (s *State) LogPlacement() (bool, error) {
	return evaluated(s, valueOr(s.switches.logPlacement, s.imported.LogPlacement))
}

// SetLogPlacement may be called at any time; nil restores the default.
func (s *State) SetLogPlacement(enabled *bool) { s.switches.logPlacement = clonePointer(enabled) }

// Placement returns the settings that an eager operation needs. They are consistent, because the runtime is
// initialized.
func (s *State) Placement() (soft, log bool, policy string) {
	return valueOr(s.switches.softPlacement, true), valueOr(s.switches.logPlacement, s.imported.LogPlacement),
		s.DevicePolicy()
}

// Jit reports whether autoclustering is on. It returns Evaluate's error.
func (s *State) Jit() (bool, error) { return evaluated(s, s.switches.jit) }

// SetJit may be called at any time.
func (s *State) SetJit(enabled bool) { s.switches.jit = enabled }

// IntraOpThreads returns the number of threads inside one operation; 0 lets the runtime choose. It returns Evaluate's
// error.
func (s *State) IntraOpThreads() (int64, error) {
	return evaluated(s, valueOr(s.switches.intraOpThreads, s.imported.IntraOpThreads))
}

// SetIntraOpThreads stores a number or None. After initialization the new value is compared with the stored value, not
// with the getter's result, which for None is 0 or the imported value.
func (s *State) SetIntraOpThreads(n *int64) error {
	return s.setThreads(&s.switches.intraOpThreads, n, "Intra op parallelism cannot be modified after initialization.")
}

// InterOpThreads returns the number of operations that run concurrently. It is otherwise like IntraOpThreads.
func (s *State) InterOpThreads() (int64, error) {
	return evaluated(s, valueOr(s.switches.interOpThreads, s.imported.InterOpThreads))
}

// SetInterOpThreads is like SetIntraOpThreads.
func (s *State) SetInterOpThreads(n *int64) error {
	return s.setThreads(&s.switches.interOpThreads, n, "Inter op parallelism cannot be modified after initialization.")
}

func (s *State) setThreads(stored **int64, n *int64, tooLate string) error {
	if err := validInt32("num_threads", n); err != nil {
		return err
	}
	if equalPointers(*stored, n) {
		return nil
	}
	if s.initialized {
		return s.tooLate(tooLate, "Set the number of threads")
	}
	*stored = clonePointer(n)
	return nil
}

// DevicePolicy returns the policy for an operation whose input is on another device.
func (s *State) DevicePolicy() string {
	if s.switches.devicePolicy == "" {
		return "silent"
	}
	return s.switches.devicePolicy
}

// SetDevicePolicy may be called at any time; nil restores "silent". repr is Python's repr() of the argument.
func (s *State) SetDevicePolicy(policy *string, repr string) error {
	if policy == nil {
		s.switches.devicePolicy = ""
		return nil
	}
	switch *policy {
	case "silent", "silent_for_int32", "warn", "explicit":
		s.switches.devicePolicy = *policy
		return nil
	}
	return status.Errorf(status.Value, "Invalid argument `device_policy`: %s. Please refer to "+
		"https://www.tensorflow.org/api_docs/python/tf/config/experimental/set_device_policy for valid "+
		"`device_policy` arguments. They are 'silent', 'silent_for_int32', 'warn' and 'explicit'.", repr)
}

// SynchronousExecution reports whether operations run synchronously, which is the default.
func (s *State) SynchronousExecution() bool { return valueOr(s.switches.synchronousExecution, true) }

// SetSynchronousExecution may be called at any time; nil restores the default.
func (s *State) SetSynchronousExecution(enabled *bool) {
	s.switches.synchronousExecution = clonePointer(enabled)
}

// TensorFlow's optimizer options. OptimizerOptions returns a toggle only if it is set, a flag always, and any other key
// never.
var (
	optimizerToggles = []string{
		"layout_optimizer", "constant_folding", "shape_optimization", "remapping", "arithmetic_optimization",
		"dependency_optimization", "loop_optimization", "function_optimization", "debug_stripper",
		"scoped_allocator_optimization", "pin_to_host_optimization", "implementation_selector", "auto_mixed_precision",
		"use_plugin_optimizers", "auto_mixed_precision_onednn_bfloat16", "auto_mixed_precision_mkl",
	}
	optimizerFlags = []string{"disable_model_pruning", "disable_meta_optimizer"}
)

const minGraphNodes = "min_graph_nodes" // the one option that is a number

// OptimizerOptions returns the options in effect: each is 0 or 1, except min_graph_nodes, a number that is included
// only if it is not 0. It returns Evaluate's error.
func (s *State) OptimizerOptions() (map[string]int64, error) {
	if err := s.Evaluate(); err != nil {
		return nil, err
	}
	options := make(map[string]int64)
	for _, name := range optimizerToggles {
		if value := s.switches.optimizer[name]; value != nil {
			options[name] = truth(*value)
		}
	}
	for _, name := range optimizerFlags {
		options[name] = truth(valueOr(s.switches.optimizer[name], 0))
	}
	if nodes := valueOr(s.switches.optimizer[minGraphNodes], 0); nodes != 0 {
		options[minGraphNodes] = nodes
	}
	return options, nil
}

// SetOptimizerOptions adds options to the stored ones; a nil value is None, which removes one. It may be called at any
// time.
func (s *State) SetOptimizerOptions(options map[string]*int64) error {
	if err := validInt32(minGraphNodes, options[minGraphNodes]); err != nil {
		return err
	}
	if len(options) > 0 && s.switches.optimizer == nil {
		s.switches.optimizer = make(map[string]*int64)
	}
	for name, value := range options {
		s.switches.optimizer[name] = clonePointer(value)
	}
	return nil
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func truth(value int64) int64 {
	if value != 0 {
		return 1
	}
	return 0
}
