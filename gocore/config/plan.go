package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpuconf/gocore/status"
)

// GPUFacts is what device creation needs to know about one physical GPU.
type GPUFacts struct {
	Ordinal          int // the number in the device's name
	LeastPriority    int // the range of stream priorities; numerically low is urgent
	GreatestPriority int
}

// Plan is what initialization has to build: all logical devices, CPUs first, each type numbered from 0.
type Plan struct {
	Devices []PlannedDevice
}

// PlannedDevice is one logical device to be.
type PlannedDevice struct {
	Logical  LogicalDevice
	Physical int // index in State.Physical

	Limited    bool // whether LimitBytes is given; else a GPU's memory is sized by DefaultLimit
	LimitBytes uint64

	Priority int  // of the device's stream; 0 unless set
	Growth   bool // before TF_FORCE_GPU_ALLOW_GROWTH; false for a CPU
}

// Plan works out the logical devices, or says why they cannot be built: Evaluate's errors first, then those of
// native device creation, in TensorFlow's order. gpus has the facts of every physical GPU, in physical order. It
// changes nothing, and the same state gives the same plan.
func (s *State) Plan(gpus []GPUFacts) (Plan, error) {
	e, err := s.evaluate()
	if err != nil {
		return Plan{}, err
	}
	if e.cpus == 0 {
		return Plan{}, s.noCPU()
	}
	facts, err := s.visibleFacts(e, gpus)
	if err != nil {
		return Plan{}, err
	}
	if err := s.checkVirtual(e, facts); err != nil {
		return Plan{}, err
	}
	return Plan{Devices: append(s.planCPUs(), s.planGPUs(e)...)}, nil
}

func (s *State) noCPU() error { // N1
	why := "no CPU is visible. Keep it with set_visible_devices(gpus, 'GPU'), or put it in the list"
	for _, index := range s.visible {
		if s.physical[index].Type == "CPU" {
			why = "the CPU's list of logical devices is empty. Give it at least one LogicalDeviceConfiguration()"
		}
	}
	return status.Errorf(status.NotFound, "No CPU devices are available in this process: %s", why)
}

// visibleFacts picks the facts of the visible GPUs.
func (s *State) visibleFacts(e evaluation, gpus []GPUFacts) ([]GPUFacts, error) {
	byIndex := make(map[int]GPUFacts)
	for index, device := range s.physical {
		if device.Type != "GPU" {
			continue
		}
		if len(byIndex) == len(gpus) {
			return nil, status.Errorf(status.Internal, "no facts about %s to plan with", device.Name)
		}
		byIndex[index] = gpus[len(byIndex)]
	}
	var facts []GPUFacts
	for _, index := range e.visibleGPUs {
		facts = append(facts, byIndex[index])
	}
	return facts, nil
}

// checkVirtual makes the checks of native creation on explicit logical devices.
func (s *State) checkVirtual(e evaluation, facts []GPUFacts) error {
	if len(e.virtual) == 0 {
		return nil
	}
	if e.gpus < len(e.virtual) { // N3
		return status.Errorf(status.Unknown, "Not enough GPUs to create virtual devices. num_gpus_to_use: %d "+
			"#virtual_devices: %d. An empty list of logical devices takes a GPU away: %s. Give it at least one "+
			"LogicalDeviceConfiguration, or hide it with set_visible_devices", e.gpus, len(e.virtual), s.emptyGPUs(e))
	}
	ordinals := countOrdinals(e.virtual[0]) > 0
	for i, items := range e.virtual {
		if ordinals != (countOrdinals(items) > 0) { // N7
			return status.Errorf(status.InvalidArgument, "Device ordinals must be set for all virtual devices or none. But the "+
				"device_ordinal is specified for %d while previous devices didn't have any set. Here %s and %s differ; a "+
				"visible GPU without logical devices has none", i, s.visibleName(e, 0), s.visibleName(e, i))
		}
	}
	for i, items := range e.virtual {
		if err := s.checkPriorities(e, i, items, facts[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkPriorities makes the checks on the priorities of visible GPU i.
func (s *State) checkPriorities(e evaluation, i int, items []LogicalConfig, gpu GPUFacts) error {
	n := countPriorities(items)
	switch first := countPriorities(e.virtual[0]); {
	case first == 0 && n > 0: // N9
		return status.Errorf(status.InvalidArgument, "Priority must be set for all virtual devices or none. But the priority "+
			"is specified for %d while previous devices didn't have any set. Here %s has none",
			i, s.visibleName(e, 0))
	case first > 0 && n != len(items): // N10
		return status.Errorf(status.InvalidArgument, "Number of virtual device priorities specified doesn't match with number "+
			"of memory_limit_mb specified for GPU# %d memory_limit_mb size: %d and priority size: %d. "+
			"%s has priorities, so %s needs them too", i, len(items), n, s.visibleName(e, 0), s.visibleName(e, i))
	}
	for _, item := range items { // N11
		if p := item.Priority; p != nil && (*p > int64(gpu.LeastPriority) || *p < int64(gpu.GreatestPriority)) {
			return status.Errorf(status.InvalidArgument,
				"Priority %d is outside the range of supported priorities [%d,%d] for virtual device %d on GPU# %d",
				*p, gpu.GreatestPriority, gpu.LeastPriority, i, gpu.Ordinal)
		}
	}
	return nil
}

func (s *State) visibleName(e evaluation, i int) string { return s.physical[e.visibleGPUs[i]].Name }

// emptyGPUs names the visible GPUs whose list of logical devices is empty.
func (s *State) emptyGPUs(e evaluation) string {
	var names []string
	for _, index := range e.visibleGPUs {
		if configs := s.logical[index]; configs != nil && len(configs.Items) == 0 {
			names = append(names, s.physical[index].Name)
		}
	}
	return strings.Join(names, ", ")
}

func (s *State) planCPUs() []PlannedDevice {
	var devices []PlannedDevice
	for index, device := range s.physical {
		if device.Type != "CPU" || !slices.Contains(s.visible, index) {
			continue
		}
		n := 1
		if configs := s.logical[index]; configs != nil {
			n = len(configs.Items)
		}
		for range n {
			devices = append(devices, PlannedDevice{Logical: logicalDevice("CPU", len(devices)), Physical: index})
		}
	}
	return devices
}

// planGPUs puts the visible GPUs' logical devices one after the other and sorts them by ordinal. A GPU without
// any is one device, which sorts as ordinal 0.
func (s *State) planGPUs(e evaluation) []PlannedDevice {
	type ranked struct {
		PlannedDevice
		ordinal int64
	}
	var all []ranked
	for i, index := range e.visibleGPUs {
		var items []LogicalConfig
		if e.virtual != nil {
			items = e.virtual[i]
		}
		if len(items) == 0 {
			all = append(all, ranked{PlannedDevice: PlannedDevice{Physical: index, Growth: e.growth}})
		}
		for _, item := range items {
			limit, _ := ExplicitLimit(*item.MemoryLimitMiB) // the setter has refused what has none
			all = append(all, ranked{
				PlannedDevice{Physical: index, Limited: true, LimitBytes: limit, Priority: int(valueOr(item.Priority, 0))},
				valueOr(item.Ordinal, 0),
			})
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.ordinal, b.ordinal) })
	devices := make([]PlannedDevice, len(all))
	for id, r := range all {
		devices[id] = r.PlannedDevice
		devices[id].Logical = logicalDevice("GPU", id)
	}
	return devices
}

func logicalDevice(deviceType string, id int) LogicalDevice {
	return LogicalDevice{Name: fmt.Sprintf("/device:%s:%d", deviceType, id), Type: deviceType}
}
