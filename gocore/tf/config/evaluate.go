// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
)

// evaluation is the configuration as passed to native device creation.
type evaluation struct {
	cpus, gpus int // the number of devices requested of each type

	// visibleGPUs are physical indices in ascending order, not the caller's. Only a session's own list keeps its order.
	visibleGPUs []int
	ownList     string // that list, "" for none

	// virtual has the configuration of each visible GPU if any device has a logical configuration, even a CPU or a
	// hidden GPU; else it is nil. A session's own list may have any length.
	virtual []virtualDevices

	growth bool // the visible GPUs' common value; if none was imported, it is false whenever virtual is not nil

	sizing    Sizing
	allocator string // allocator_type, "" for the default
	unified   bool
}

// virtualDevices is the logical device configuration of one GPU. The counts may differ from the number of items only in
// a message that was not made from LogicalConfigs.
type virtualDevices struct {
	items                []LogicalConfig
	priorities, ordinals int
}

// virtualOf lists the logical device configurations of some GPUs.
func (s *State) virtualOf(gpus []int) []virtualDevices {
	list := make([]virtualDevices, len(gpus))
	for i, index := range gpus {
		configs := s.logical[index]
		if configs == nil {
			continue
		}
		list[i].items = configs.Items
		for _, item := range configs.Items {
			if item.Priority != nil {
				list[i].priorities++
			}
			if item.Ordinal != nil {
				list[i].ordinals++
			}
		}
	}
	return list
}

// Evaluate checks that the settings are consistent, which setters do not check. Getters of settings that TensorFlow
// keeps in the same message return its error.
func (s *State) Evaluate() error {
	_, err := s.evaluate(false)
	return err
}

// evaluate makes Evaluate's checks. A session with a ConfigProto does not look at growth that differs between GPUs, as
// in TensorFlow.
func (s *State) evaluate(ownProto bool) (evaluation, error) {
	var e evaluation
	visible := make([]bool, len(s.physical)) // duplicates count once
	for _, index := range s.visible {
		visible[index] = true
	}
	anyLogical := false
	for index, device := range s.physical {
		configs := s.logical[index]
		anyLogical = anyLogical || configs != nil
		if !visible[index] {
			continue
		}
		n := 1
		if configs != nil {
			n = len(configs.Items)
		}
		switch device.Type {
		case "CPU":
			e.cpus += n
		case "GPU":
			e.gpus += n
			e.visibleGPUs = append(e.visibleGPUs, index)
		}
	}
	if anyLogical {
		e.virtual = s.virtualOf(e.visibleGPUs)
		if err := s.evaluateLogical(e); err != nil {
			return e, err
		}
	} else if err := s.evaluateGrowth(&e); err != nil && !ownProto {
		return e, err
	}
	e.merge(s.imported)
	if e.virtual != nil {
		return e, nil
	}
	return e, s.applyLists(&e, s.imported)
}

// evaluateLogical checks K1, then K2, for each GPU.
func (s *State) evaluateLogical(e evaluation) error {
	for i, index := range e.visibleGPUs {
		asked, name := e.virtual[i], s.physical[index].Name
		if n := asked.priorities; n != 0 && n != len(asked.items) {
			return someButNotAll("priority", name, n, len(asked.items))
		}
		if n := asked.ordinals; n != 0 && n != len(asked.items) {
			return someButNotAll("device_ordinals", name, n, len(asked.items))
		}
	}
	return nil
}

func someButNotAll(what, device string, given, of int) error {
	return status.Errorf(status.Value,
		"%s must be specified for all virtual devices: on %s, %d of %d have one", what, device, given, of)
}

// evaluateGrowth checks K3 and sets growth. None is compared like any other value.
func (s *State) evaluateGrowth(e *evaluation) error {
	for i, index := range e.visibleGPUs {
		if i > 0 && !equalPointers(s.growth[index], s.growth[e.visibleGPUs[0]]) {
			return status.Errorf(status.Value, "Memory growth cannot differ between GPU devices: %s. "+
				"Set the same value for all of them, or hide some with set_visible_devices",
				s.growthValues(e.visibleGPUs))
		}
	}
	if len(e.visibleGPUs) > 0 {
		e.growth = valueOr(s.growth[e.visibleGPUs[0]], 0) != 0
	}
	return nil
}

// growthValues describes two devices for K3's message: the first, and the first that differs from it.
func (s *State) growthValues(gpus []int) string {
	var values []string
	for _, index := range gpus {
		if len(values) == 0 || !equalPointers(s.growth[index], s.growth[gpus[0]]) {
			values = append(values, fmt.Sprintf("%s has %s", s.physical[index].Name, pythonValue(s.growth[index])))
		}
		if len(values) == 2 {
			break
		}
	}
	return strings.Join(values, ", ")
}

func pythonValue(value *int64) string {
	switch {
	case value == nil:
		return "None"
	case *value == 0:
		return "False"
	case *value == 1:
		return "True"
	}
	return strconv.FormatInt(*value, 10)
}
