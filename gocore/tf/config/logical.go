// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"

	"gpuconf/gocore/base/status"
)

// LogicalConfigs returns a copy of dev's logical device configuration, nil if none was ever set.
func (s *State) LogicalConfigs(dev Arg) (*LogicalConfigs, error) {
	index, err := s.find(dev)
	if err != nil || s.logical[index] == nil {
		return nil, err
	}
	return s.logical[index].clone(), nil
}

// Limits returns the limits in bytes of the logical devices that a physical device is configured to have; nil if it is
// not configured.
func (s *State) Limits(index int) (limits []uint64) {
	if index < 0 || index >= len(s.physical) || s.logical[index] == nil {
		return nil
	}
	for _, item := range s.logical[index].Items {
		if item.hasLimit() {
			limit, _ := item.limit() // the setter has rejected invalid limits
			limits = append(limits, limit)
		}
	}
	return limits
}

// SetLogicalConfigs stores a copy of dev's logical device configuration. A growth value set before is kept but ignored.
func (s *State) SetLogicalConfigs(dev Arg, configs LogicalConfigs) error {
	index, err := s.find(dev)
	if err != nil {
		return err
	}
	if err := validLogicalConfigs(s.physical[index].Type, configs); err != nil {
		return err
	}
	if stored := s.logical[index]; stored != nil && stored.equal(configs) {
		return nil
	}
	if s.initialized {
		return s.tooLate("Virtual devices cannot be modified after being initialized", "Set logical devices")
	}
	s.logical[index], s.changed = configs.clone(), true
	return nil
}

// validLogicalConfigs validates configs alone: first TensorFlow's checks, then numbers that TensorFlow accepts but
// misbehaves on later.
func validLogicalConfigs(deviceType string, configs LogicalConfigs) error {
	switch deviceType {
	case "CPU":
		return validForCPU(configs.Items)
	case "GPU":
		return validForGPU(configs.Items)
	}
	return status.Errorf(status.Value, "Virtual devices are not supported for %s", deviceType)
}

func validForCPU(items []LogicalConfig) error {
	const remedy = ": for a CPU, use LogicalDeviceConfiguration() without arguments"
	for _, item := range items {
		switch { // the double spaces are TensorFlow's
		case item.hasLimit():
			return status.Errorf(status.Value,
				"Setting memory limit on CPU virtual devices is currently not supported"+remedy)
		case item.Priority != nil:
			return status.Errorf(status.Value,
				"Setting experimental_priority on CPU virtual  devices is currently not supported"+remedy)
		case item.Ordinal != nil:
			return status.Errorf(status.Value,
				"Setting experimental_device_ordinal on CPU virtual  devices is currently not supported"+remedy)
		}
	}
	return nil
}

func validForGPU(items []LogicalConfig) error {
	for i, item := range items {
		if !item.hasLimit() {
			return status.Errorf(status.Value, "Setting memory limit is required for GPU virtual devices: "+
				"entry %d has no memory_limit. Set memory_limit, in MiB, in every LogicalDeviceConfiguration", i)
		}
	}
	for _, item := range items {
		if _, err := item.limit(); err != nil {
			return err
		}
		if err := validInt32("experimental_priority", item.Priority); err != nil {
			return err
		}
		if err := validInt32("experimental_device_ordinal", item.Ordinal); err != nil {
			return err
		}
	}
	return nil
}

// validInt32 rejects a value that does not fit TensorFlow's configuration message, with the message's own error text.
// TensorFlow does so only when it evaluates the configuration.
func validInt32(what string, value *int64) error {
	if value != nil && (*value < math.MinInt32 || *value > math.MaxInt32) {
		return status.Errorf(status.Value, "Value out of range: %d: %s must fit in 32 bits", *value, what)
	}
	return nil
}
