// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// Check verifies those invariants of the package comment that a single state can violate. The error names the invariant
// by number.
func (s *State) Check() error {
	for _, index := range s.visible {
		if index < 0 || index >= len(s.physical) {
			return fmt.Errorf("invariant 1: visible device %d of %d", index, len(s.physical))
		}
	}
	for index, device := range s.physical {
		if s.growth[index] != nil && device.Type != "GPU" {
			return fmt.Errorf("invariant 2: %s has a growth value", device.Name)
		}
		if configs := s.logical[index]; configs != nil {
			if err := validLogicalConfigs(device.Type, *configs); err != nil {
				return fmt.Errorf("invariant 3: %s: %w", device.Name, err)
			}
		}
	}
	return nil
}
