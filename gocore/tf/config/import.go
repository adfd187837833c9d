// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
)

// Import applies a ConfigProto as TensorFlow does when a program starts with one. The device lists become visible and
// logical devices, which can be changed afterwards; the other settings apply wherever nothing else is set, and growth
// that it turns on stays on.
//
// On a machine without GPUs, settings for GPUs are not validated. An index is interpreted as in Python: -1 is the last
// GPU.
func (s *State) Import(o Options) error {
	if s.Initialized() {
		return s.tooLate("tf.enable_eager_execution must be called at program startup.", "Call it")
	}
	if err := o.check(); err != nil {
		return err
	}
	next := s.Clone()
	if cpus, asked := o.DeviceCount["CPU"]; asked {
		next.importCPUs(cpus)
	}
	gpus := next.gpuIndices()
	if len(gpus) > 0 {
		visible, err := importVisible(o, gpus)
		if err != nil {
			return err
		}
		next.visible = append(slices.DeleteFunc(next.visible,
			func(i int) bool { return next.physical[i].Type == "GPU" }), visible...)
	}
	next.imported = o.clone()
	next.imported.DeviceCount, next.imported.VisibleDeviceList = nil, ""
	*s = *next
	return nil
}

// importCPUs configures n logical CPUs; 0 hides the CPU.
func (s *State) importCPUs(n int64) {
	for index, device := range s.physical {
		if device.Type != "CPU" {
			continue
		}
		if n == 0 {
			s.visible = slices.DeleteFunc(s.visible, func(i int) bool { return i == index })
		}
		if n > 1 {
			s.logical[index] = &LogicalConfigs{Items: make([]LogicalConfig, n)}
		}
	}
}

// importVisible returns the physical indices of the GPUs that a ConfigProto leaves visible.
func importVisible(o Options, gpus []int) (visible []int, err error) {
	visible = gpus
	if o.VisibleDeviceList != "" {
		visible = nil
		for _, entry := range strings.Split(o.VisibleDeviceList, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(entry))
			if err != nil {
				return nil,
					status.Errorf(status.Value, "invalid literal for int() with base 10: '%s': visible_device_list "+
						"is '%s'",
						entry, o.VisibleDeviceList)
			}
			if n >= len(gpus) || n < -len(gpus) {
				return nil, status.Errorf(status.Value, "Invalid visible device index: %s: there are %d GPUs",
					entry, len(gpus))
			}
			visible = append(visible, gpus[(n+len(gpus))%len(gpus)])
		}
	}
	if n, asked := o.DeviceCount["GPU"]; asked && n < int64(len(visible)) {
		visible = visible[:max(n, 0)]
	}
	return visible, nil
}
