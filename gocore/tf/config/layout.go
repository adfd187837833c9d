// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpuconf/gocore/base/status"
)

// GPUFacts is the information about a physical GPU that device creation needs.
type GPUFacts struct {
	Ordinal          int // the number in the device's name
	LeastPriority    int // the least urgent stream priority; numerically the highest
	GreatestPriority int // the most urgent stream priority; numerically the lowest
	ComputeMajor     int // 9 of compute capability 9.0
}

// Layout lists the logical devices that initialization builds: CPUs first, each type numbered from 0.
type Layout struct {
	Devices []LayoutDevice // the CPUs, then the GPUs, each in the order of their numbers

	// The part that one session sees, if it requested other numbers of devices: the number of CPUs, and of the first
	// GPUs, math.MaxInt for all.
	CPUs, GPUs int
}

// Equal reports whether two layouts have the same devices, regardless of what a session sees of them.
func (p Layout) Equal(other Layout) bool { return slices.Equal(p.Devices, other.Devices) }

// LayoutDevice is one logical device of a Layout.
type LayoutDevice struct {
	Logical  LogicalDevice // its name and type
	Physical int           // index in State.Physical

	Limited    bool   // whether LimitBytes is set; else DefaultLimit sizes a GPU's memory
	LimitBytes uint64 // the limit of the pool; 0 unless Limited

	Sizing Sizing // input of DefaultLimit

	Priority  int    // of the device's stream; 0 unless set
	Growth    bool   // whether the pool grows, before TF_FORCE_GPU_ALLOW_GROWTH; false for a CPU
	Unified   bool   // the pool's memory is unified memory, which may exceed the GPU's
	Allocator string // the requested allocator; "" for BFC, the only one there is
}

// Layout returns the logical devices to build. If they cannot be built, it returns Evaluate's errors first, then those
// of native device creation, in TensorFlow's order. gpus describes every physical GPU, in physical order. Layout
// changes nothing, and the same state always produces the same layout.
func (s *State) Layout(gpus []GPUFacts) (Layout, error) { return s.LayoutFor(gpus, Options{}) }

// LayoutFor is Layout for a session with its own options, which override the configuration where they are set.
func (s *State) LayoutFor(gpus []GPUFacts, o Options) (Layout, error) {
	if err := o.check(); err != nil {
		return Layout{}, err
	}
	e, err := s.evaluate(o.Given)
	if err != nil {
		return Layout{}, err
	}
	layout := Layout{CPUs: e.cpus, GPUs: math.MaxInt}
	o.count(&layout)
	if layout.CPUs <= 0 {
		return Layout{}, s.noCPU(o)
	}
	e.merge(o)
	if err := s.applyLists(&e, o); err != nil {
		return Layout{}, err
	}
	e.gpus = min(e.gpus, layout.GPUs)
	facts, err := s.visibleFacts(e, gpus)
	if err != nil {
		return Layout{}, err
	}
	if len(s.gpuIndices()) > 0 {
		if err := s.checkVirtual(e, facts); err != nil {
			return Layout{}, err
		}
	}
	if err := e.checkSizing(facts); err != nil {
		return Layout{}, err
	}
	layout.Devices = append(s.layOutCPUs(), s.layOutGPUs(e)...)
	return layout, nil
}

func (s *State) noCPU(o Options) error { // N1
	why := "no CPU is visible. Keep it with set_visible_devices(gpus, 'GPU'), or put it in the list"
	for _, index := range s.visible {
		if s.physical[index].Type == "CPU" {
			why = "the CPU's list of logical devices is empty. Give it at least one LogicalDeviceConfiguration()"
		}
	}
	if _, counted := o.DeviceCount["CPU"]; counted {
		why = "device_count['CPU'] is 0. Set it to 1 or more, or leave it unset"
	}
	return status.Errorf(status.NotFound, "No CPU devices are available in this process: %s", why)
}

// visibleFacts selects the facts of the visible GPUs.
func (s *State) visibleFacts(e evaluation, gpus []GPUFacts) ([]GPUFacts, error) {
	byIndex := make(map[int]GPUFacts)
	for index, device := range s.physical {
		if device.Type != "GPU" {
			continue
		}
		if len(byIndex) == len(gpus) {
			return nil, status.Errorf(status.Internal, "no device information for %s", device.Name)
		}
		byIndex[index] = gpus[len(byIndex)]
	}
	var facts []GPUFacts
	for _, index := range e.visibleGPUs {
		facts = append(facts, byIndex[index])
	}
	return facts, nil
}

// checkVirtual makes native device creation's checks of explicit logical devices.
func (s *State) checkVirtual(e evaluation, facts []GPUFacts) error {
	if len(e.virtual) == 0 {
		return nil
	}
	use := min(e.gpus, len(e.visibleGPUs))
	if err := s.checkNumbers(e, use); err != nil {
		return err
	}
	ordinals := e.virtual[0].ordinals > 0
	for i, asked := range e.virtual {
		if ordinals != (asked.ordinals > 0) { // N7
			return status.Errorf(status.InvalidArgument, "Device ordinals must be set for all virtual devices or "+
				"none. But the device_ordinal is specified for %d while previous devices didn't have any set. %s and "+
				"%s differ; a visible GPU without logical devices has no ordinals",
				i, s.visibleName(e, 0), s.visibleName(e, i))
		}
		if ordinals && asked.ordinals != len(asked.items) { // N8
			return status.Errorf(status.InvalidArgument, "Number of virtual device ordinals specified doesn't match "+
				"with number of memory_limit_mb specified for GPU# %d memory_limit_mb size: %d and device_ordinal "+
				"size: %d",
				i, len(asked.items), asked.ordinals)
		}
	}
	for i, asked := range e.virtual {
		if err := s.checkPriorities(e, i, asked, facts[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkNumbers compares the number of entries with the number of GPUs; use is how many of those are to be used.
func (s *State) checkNumbers(e evaluation, use int) error {
	if e.sizing.Fraction > 0 { // N4
		return status.Errorf(status.InvalidArgument, "It's invalid to set per_process_gpu_memory_fraction when "+
			"virtual_devices is set. Do not set the fraction: each logical device has its own memory_limit")
	}
	if use < len(e.virtual) { // N3
		why := "There are more entries than GPUs to use"
		if empty := s.emptyGPUs(e); empty != "" {
			why = "An empty list of logical devices leaves a GPU unused: " + empty + ". Give it at least one " +
				"LogicalDeviceConfiguration, or hide it with set_visible_devices"
		}
		return status.Errorf(status.Unknown, "Not enough GPUs to create virtual devices. num_gpus_to_use: %d "+
			"#virtual_devices: %d. %s",
			use, len(e.virtual), why)
	}
	if e.ownList != "" && len(e.visibleGPUs) != len(e.virtual) { // N5
		return status.Errorf(status.InvalidArgument, "The number of GPUs in visible_device_list doesn't match the "+
			"number of elements in the virtual_devices list. #GPUs in visible_device_list: %d virtual_devices.size(): "+
			"%d", len(e.visibleGPUs), len(e.virtual))
	}
	if len(e.visibleGPUs) != len(e.virtual) { // N6
		return status.Errorf(status.Unknown, "The number of valid GPUs doesn't match the number of elements in the "+
			"virtual_devices list. #valid GPUs: %d virtual_devices.size(): %d", len(e.visibleGPUs), len(e.virtual))
	}
	return nil
}

// checkPriorities checks the priorities of visible GPU i.
func (s *State) checkPriorities(e evaluation, i int, asked virtualDevices, gpu GPUFacts) error {
	n := asked.priorities
	switch first := e.virtual[0].priorities; {
	case first == 0 && n > 0: // N9
		return status.Errorf(status.InvalidArgument, "Priority must be set for all virtual devices or none. But the "+
			"priority is specified for %d while previous devices didn't have any set. %s has no priority",
			i, s.visibleName(e, 0))
	case first > 0 && n != len(asked.items): // N10
		return status.Errorf(status.InvalidArgument, "Number of virtual device priorities specified doesn't match "+
			"with number of memory_limit_mb specified for GPU# %d memory_limit_mb size: %d and priority size: %d. %s "+
			"has priorities, so %s needs them too", i, len(asked.items), n, s.visibleName(e, 0), s.visibleName(e, i))
	}
	for _, item := range asked.items { // N11
		if p := item.Priority; p != nil && (*p > int64(gpu.LeastPriority) || *p < int64(gpu.GreatestPriority)) {
			return status.Errorf(status.InvalidArgument,
				"Priority %d is outside the range of supported priorities [%d,%d] for virtual device %d on GPU# %d",
				*p, gpu.GreatestPriority, gpu.LeastPriority, i, gpu.Ordinal)
		}
	}
	return nil
}

func (s *State) visibleName(e evaluation, i int) string { return s.physical[e.visibleGPUs[i]].Name }

// emptyGPUs lists the visible GPUs whose list of logical devices is empty.
func (s *State) emptyGPUs(e evaluation) string {
	var names []string
	for _, index := range e.visibleGPUs {
		if configs := s.logical[index]; configs != nil && len(configs.Items) == 0 {
			names = append(names, s.physical[index].Name)
		}
	}
	return strings.Join(names, ", ")
}

func (s *State) layOutCPUs() []LayoutDevice {
	var devices []LayoutDevice
	for index, device := range s.physical {
		if device.Type != "CPU" || !slices.Contains(s.visible, index) {
			continue
		}
		n := 1
		if configs := s.logical[index]; configs != nil {
			n = len(configs.Items)
		}
		for range n {
			devices = append(devices, LayoutDevice{Logical: logicalDevice("CPU", len(devices)), Physical: index})
		}
	}
	return devices
}

// layOutGPUs concatenates the visible GPUs' logical devices and sorts them by ordinal. A GPU without a configuration is
// one device, with ordinal 0.
func (s *State) layOutGPUs(e evaluation) []LayoutDevice {
	type ranked struct {
		LayoutDevice
		ordinal int64
	}
	var all []ranked
	for i, index := range e.visibleGPUs {
		common := LayoutDevice{Physical: index, Growth: e.growth, Unified: e.usesUnifiedMemory(),
			Allocator: e.allocator}
		var items []LogicalConfig
		if e.virtual != nil {
			items = e.virtual[i].items
		}
		if len(items) == 0 {
			whole := common
			whole.Sizing = e.sizing
			for range max(e.sizing.Shares, 1) {
				all = append(all, ranked{LayoutDevice: whole})
			}
		}
		for _, item := range items {
			limited := common
			limited.Limited, limited.Priority = true, int(valueOr(item.Priority, 0))
			limited.LimitBytes, _ = item.limit() // the setter has rejected invalid limits
			all = append(all, ranked{limited, valueOr(item.Ordinal, 0)})
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.ordinal, b.ordinal) })
	devices := make([]LayoutDevice, len(all))
	for id, r := range all {
		devices[id] = r.LayoutDevice
		devices[id].Logical = logicalDevice("GPU", id)
	}
	return devices
}

func logicalDevice(deviceType string, id int) LogicalDevice {
	return LogicalDevice{Name: fmt.Sprintf("/device:%s:%d", deviceType, id), Type: deviceType}
}

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
