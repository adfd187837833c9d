// SPDX-License-Identifier: Apache-2.0

package config

import (
	"gpuconf/gocore/base/status"
)

// Growth returns the stored growth value; set is false for None, the default. For a device without a growth setting it
// returns NotFound, which is Python's KeyError.
func (s *State) Growth(dev Arg) (value int64, set bool, err error) {
	index, err := s.find(dev)
	if err != nil {
		return 0, false, err
	}
	if s.physical[index].Type != "GPU" {
		return 0, false, status.Errorf(status.NotFound, "%s: only a GPU has memory growth", dev.repr())
	}
	if s.growth[index] == nil {
		return 0, false, nil
	}
	return *s.growth[index], true, nil
}

// SetGrowth stores a growth value, a bool as 0 or 1. badType is the Python type of a value that is neither bool nor
// int, else "". Evaluate checks that the values of all visible GPUs agree.
func (s *State) SetGrowth(dev Arg, value int64, badType string) error {
	index, err := s.find(dev)
	if err != nil {
		return err
	}
	device := s.physical[index]
	if s.logical[index] != nil {
		return status.Errorf(status.Value, "Cannot set memory growth on device when virtual devices configured: "+
			"%s has a logical device configuration", device.Name)
	}
	if device.Type != "GPU" {
		return status.Errorf(status.Value,
			"Cannot set memory growth on non-GPU and non-Pluggable devices: %s is a %s", device.Name, device.Type)
	}
	if badType != "" {
		return status.Errorf(status.InvalidType, "Memory growth must be True or False, not a value of type %s", badType)
	}
	if equalPointers(s.growth[index], &value) {
		return nil
	}
	if s.initialized {
		return s.tooLate("Physical devices cannot be modified after being initialized", "Set memory growth")
	}
	s.growth[index], s.changed = &value, true
	return nil
}
