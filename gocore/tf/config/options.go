// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
)

// Options are the device settings of a ConfigProto. A zero field was not set.
type Options struct {
	DeviceCount map[string]int64 // by type: the maximum number of devices to use; for CPUs, the number to create

	Given bool // whether there is a ConfigProto at all: a session without one uses the configuration

	VisibleDeviceList string           // GPUs by their position in the physical list: "1,0"
	AllowGrowth       bool             // whether pools grow as needed, instead of reserving their limit at once
	AllocatorType     string           // "" or "BFC"; devices cannot be created with any other
	VirtualDevices    []VirtualDevices // by visible GPU
	UnifiedMemory     bool             // whether pools use unified memory, which may exceed the memory of the GPU
	Sizing            Sizing           // sizes the pools that have no limit of their own

	// For Import only; a session has its own.
	LogPlacement                   bool
	IntraOpThreads, InterOpThreads int64 // the threads of one operation, and how many operations run at once
}

// VirtualDevices is a ConfigProto's configuration of one GPU: a logical device for each limit, in MiB.
type VirtualDevices struct {
	MemoryLimitMiB []float64 // the limit of each logical device
	Priority       []int64   // the priority of each one's stream; empty: not set
	Ordinal        []int64   // the key by which the logical devices of all GPUs are sorted; empty: not set
}

// AboutGPUs reports whether any option affects the GPUs' pools. The number of devices does not: each session has its
// own.
func (o Options) AboutGPUs() bool {
	return o.VisibleDeviceList != "" || o.AllowGrowth || o.namedAllocator() != "" || len(o.VirtualDevices) > 0 ||
		o.UnifiedMemory || o.Sizing != Sizing{}
}

// namedAllocator returns AllocatorType unless it is the default, "BFC".
func (o Options) namedAllocator() string {
	if o.AllocatorType == "BFC" {
		return ""
	}
	return o.AllocatorType
}

func (o Options) clone() Options {
	o.DeviceCount = maps.Clone(o.DeviceCount)
	o.VirtualDevices = slices.Clone(o.VirtualDevices)
	for i, v := range o.VirtualDevices {
		o.VirtualDevices[i] = VirtualDevices{slices.Clone(v.MemoryLimitMiB), slices.Clone(v.Priority),
			slices.Clone(v.Ordinal)}
	}
	return o
}

// enough is the maximum number of logical devices that can be requested by number.
const enough = 1 << 10

// check rejects unreasonably large numbers of devices.
func (o Options) check() error {
	if n := o.DeviceCount["CPU"]; n > enough {
		return status.Errorf(status.InvalidArgument, "device_count['CPU'] is %d: the maximum is %d", n, enough)
	}
	return nil
}

// count copies the requested numbers of devices into a layout.
func (o Options) count(p *Layout) {
	if n, asked := o.DeviceCount["CPU"]; asked {
		p.CPUs = int(n)
	}
	if n, asked := o.DeviceCount["GPU"]; asked {
		p.GPUs = max(int(n), 0)
	}
}

// merge overrides the evaluation with the options that are set. Growth cannot be turned off.
func (e *evaluation) merge(o Options) {
	e.growth = e.growth || o.AllowGrowth
	e.unified = e.unified || o.UnifiedMemory
	if name := o.namedAllocator(); name != "" {
		e.allocator = name
	}
	if o.Sizing.Fraction != 0 { // NaN counts
		e.sizing.Fraction = o.Sizing.Fraction
	}
	if o.Sizing.SystemMiB != 0 {
		e.sizing.SystemMiB = o.Sizing.SystemMiB
	}
	if o.Sizing.Shares != 0 {
		e.sizing.Shares = o.Sizing.Shares
	}
}

// applyLists replaces the configuration's lists by a session's own. On a machine without GPUs, or for a session that
// uses none, they are not validated, as in TensorFlow.
func (s *State) applyLists(e *evaluation, o Options) error {
	gpus := s.gpuIndices()
	wanted, limited := o.DeviceCount["GPU"]
	if o.VisibleDeviceList != "" && len(gpus) > 0 && (!limited || wanted > 0) {
		order, err := parseVisibleList(o.VisibleDeviceList, gpus)
		if err != nil {
			return err
		}
		e.visibleGPUs, e.ownList, e.gpus = order, o.VisibleDeviceList, math.MaxInt
		if e.virtual != nil {
			e.virtual = s.virtualOf(order)
		}
	}
	if len(o.VirtualDevices) == 0 {
		return nil
	}
	e.virtual, e.gpus = nil, math.MaxInt
	for _, v := range o.VirtualDevices {
		asked, err := v.read()
		if err != nil {
			return err
		}
		e.virtual = append(e.virtual, asked)
	}
	return nil
}

// parseVisibleList parses a list as native device creation does, and returns physical indices in the list's order.
func parseVisibleList(list string, gpus []int) (order []int, err error) {
	for _, entry := range strings.Split(list, ",") {
		n, err := parseInt(entry, 32)
		if err != nil { // N13
			return nil, status.Errorf(status.InvalidArgument, "Could not parse entry in 'visible_device_list': '%s'. "+
				"visible_device_list = %s", entry, list)
		}
		if n < 0 || n >= int64(len(gpus)) { // N14
			return nil, status.Errorf(status.InvalidArgument, "'visible_device_list' listed an invalid Device id '%d' "+
				"but visible device count is %d", n, len(gpus))
		}
		order = append(order, gpus[n])
	}
	for i, index := range order {
		if slices.Contains(order[:i], index) { // N15
			return nil, status.Errorf(status.InvalidArgument, "visible_device_list contained a duplicate entry: %s",
				list)
		}
	}
	return order, nil
}

// read converts the lists to logical devices. The lists may have different lengths; the counts record them for the
// checks.
func (v VirtualDevices) read() (virtualDevices, error) {
	asked := virtualDevices{priorities: len(v.Priority), ordinals: len(v.Ordinal)}
	for i := range v.MemoryLimitMiB {
		if _, err := ExplicitLimit(v.MemoryLimitMiB[i]); err != nil {
			return asked, err
		}
		item := LogicalConfig{MemoryLimitMiB: &v.MemoryLimitMiB[i]}
		if i < len(v.Priority) {
			item.Priority = &v.Priority[i]
		}
		if i < len(v.Ordinal) {
			item.Ordinal = &v.Ordinal[i]
		}
		asked.items = append(asked.items, item)
	}
	return asked, nil
}

// usesUnifiedMemory reports whether the pools use unified memory: if it was requested, or if a fraction above 1 needs
// it, regardless of the resulting limit.
func (e evaluation) usesUnifiedMemory() bool { return e.unified || e.sizing.Fraction > 1 }

// checkSizing rejects sizes that the visible GPUs cannot have. A GPU whose logical devices have explicit limits is not
// sized, so it is not checked for oversubscription, as in TensorFlow. Nor is any GPU for a session that uses none.
func (e evaluation) checkSizing(facts []GPUFacts) error {
	for i, gpu := range facts {
		sized := e.gpus > 0 && (e.virtual == nil || len(e.virtual[i].items) == 0)
		if sized && e.usesUnifiedMemory() && gpu.ComputeMajor < 6 {
			return errNoOversubscription()
		}
	}
	if f := e.sizing.Fraction; !(f >= 0 && f <= math.MaxFloat64) { // NaN fails too
		return status.Errorf(status.InvalidArgument, "per_process_gpu_memory_fraction is %v: it must be a positive "+
			"number", f)
	}
	if e.sizing.SystemMiB < 0 || e.sizing.Shares < 0 {
		return status.Errorf(status.InvalidArgument, "gpu_system_memory_size_in_mb and num_virtual_devices_per_gpu "+
			"must not be negative: they are %d and %d", e.sizing.SystemMiB, e.sizing.Shares)
	}
	if e.sizing.Shares > enough {
		return status.Errorf(status.InvalidArgument, "num_virtual_devices_per_gpu is %d: the maximum is %d",
			e.sizing.Shares, enough)
	}
	return nil
}

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
