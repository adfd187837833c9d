package config

import (
	"fmt"
	"strconv"
	"strings"

	"gpuconf/gocore/status"
)

// evaluation is the configuration as native device creation gets it.
type evaluation struct {
	cpus, gpus int // how many devices of the type are asked for

	// visibleGPUs are physical indices, ascending: the caller's order is gone. Only a session's own list keeps its order.
	visibleGPUs []int
	ownList     string // that list, "" for none

	// virtual has an entry per visible GPU, with what was asked for it, as soon as any device has a logical
	// configuration, even a CPU or a hidden GPU; else it is nil. A session's own may have any length.
	virtual []virtualDevices

	growth bool // the visible GPUs' common value; without an imported one it is false whenever virtual is not nil

	sizing    Sizing
	allocator string // allocator_type, "" for the default
	unified   bool
}

// virtualDevices is what was asked for one GPU. The counts can only differ from the number of items, or be other than 0, in a
// message that was not made from LogicalConfigs.
type virtualDevices struct {
	items                []LogicalConfig
	priorities, ordinals int
}

// Evaluate says whether the settings fit together, which no setter looks at. Getters of settings that TensorFlow keeps
// in the same message fail where it does.
func (s *State) Evaluate() error {
	_, err := s.evaluate()
	return err
}

func (s *State) evaluate() (evaluation, error) {
	var e evaluation
	visible := make([]bool, len(s.physical)) // a duplicate counts once
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
	}
	if err := s.evaluateGPUs(&e); err != nil {
		return e, err
	}
	e.merge(s.imported)
	if e.virtual != nil {
		return e, nil
	}
	return e, s.applyLists(&e, s.imported)
}

// virtualOf lists what was asked for some GPUs.
func (s *State) virtualOf(gpus []int) []virtualDevices {
	list := make([]virtualDevices, len(gpus))
	for i, index := range gpus {
		if configs := s.logical[index]; configs != nil {
			list[i] = virtualDevices{configs.Items, countPriorities(configs.Items), countOrdinals(configs.Items)}
		}
	}
	return list
}

func (s *State) evaluateGPUs(e *evaluation) error {
	if e.virtual != nil {
		return s.evaluateLogical(*e)
	}
	return s.evaluateGrowth(e)
}

// evaluateLogical checks virtual: K1, then K2, GPU by GPU.
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
	return status.Errorf(status.InvalidArgument,
		"%s must be specified for all virtual devices: on %s, %d of %d have one", what, device, given, of)
}

func countPriorities(items []LogicalConfig) (n int) {
	for _, item := range items {
		if item.Priority != nil {
			n++
		}
	}
	return n
}

func countOrdinals(items []LogicalConfig) (n int) {
	for _, item := range items {
		if item.Ordinal != nil {
			n++
		}
	}
	return n
}

// evaluateGrowth fills in growth: K3. None is a value like any other here.
func (s *State) evaluateGrowth(e *evaluation) error {
	for i, index := range e.visibleGPUs {
		if i > 0 && !equalPointers(s.growth[index], s.growth[e.visibleGPUs[0]]) {
			return status.Errorf(status.InvalidArgument, "Memory growth cannot differ between GPU devices: %s. "+
				"Set the same value for all of them, or hide some with set_visible_devices", s.growthValues(e.visibleGPUs))
		}
	}
	if len(e.visibleGPUs) > 0 {
		e.growth = valueOr(s.growth[e.visibleGPUs[0]], 0) != 0
	}
	return nil
}

// growthValues tells two devices apart for K3's message: the first, and the first that differs from it.
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
