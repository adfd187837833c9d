// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"

	"gpuconf/gocore/base/status"
)

// Visible returns the visible devices as they were set, with the caller's order and duplicates. Only this getter shows
// that order; logical devices follow the physical order.
func (s *State) Visible() []PhysicalDevice {
	devices := make([]PhysicalDevice, len(s.visible))
	for i, index := range s.visible {
		devices[i] = s.physical[index]
	}
	return devices
}

// SetVisible replaces the visible devices: all of them if deviceType is nil, else those of that type, which move behind
// the others.
func (s *State) SetVisible(devices []Arg, deviceType *string) error {
	var visible []int
	if deviceType != nil {
		for _, index := range s.visible {
			if s.physical[index].Type != *deviceType {
				visible = append(visible, index)
			}
		}
	}
	for _, dev := range devices {
		index, err := s.find(dev)
		if err != nil {
			return err
		}
		if deviceType != nil && dev.Device.Type != *deviceType {
			return status.Errorf(status.Value, "Unrecognized device: %s: its type is %s, and device_type is '%s'",
				dev.repr(), dev.Device.Type, *deviceType)
		}
		visible = append(visible, index)
	}
	if slices.Equal(s.visible, visible) {
		return nil
	}
	if s.initialized {
		return s.tooLate("Visible devices cannot be modified after being initialized", "Set visible devices")
	}
	s.visible, s.changed = visible, true
	return nil
}
