// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuconf/gocore/base/status"
)

// State is a program's configuration (S2, SB or S3 of the package comment). It has no lock: its owner must guard it. It
// is plain data; Clone copies it and reflect.DeepEqual compares it.
type State struct {
	physical []PhysicalDevice // as enumerated; never changes

	visible []int             // indices into physical, in the caller's order, duplicates kept
	growth  []*int64          // by physical index; nil is None; only GPUs have a value
	logical []*LogicalConfigs // by physical index; nil if never set

	switches switches
	imported Options // from Import; its lists are in visible and logical

	built       bool   // SB: sessions have built devices
	changed     bool   // in SB: a setter was called since, and what is built may differ from the configuration
	initialized bool   // S3
	origin      string // the call that built the devices: "file:line (call)", or ""
}

// New returns the state after enumeration: all devices visible, nothing configured.
func New(physical []PhysicalDevice) *State {
	s := &State{
		physical: slices.Clone(physical),
		visible:  make([]int, len(physical)),
		growth:   make([]*int64, len(physical)),
		logical:  make([]*LogicalConfigs, len(physical)),
	}
	for i := range s.visible {
		s.visible[i] = i
	}
	return s
}

// Clone returns an independent copy. It shares what the pointers point to, which never changes.
func (s *State) Clone() *State {
	c := *s
	c.physical = slices.Clone(s.physical)
	c.visible = slices.Clone(s.visible)
	c.growth = slices.Clone(s.growth)
	c.logical = slices.Clone(s.logical)
	c.switches.optimizer = maps.Clone(s.switches.optimizer)
	c.imported = s.imported.clone()
	return &c
}

// Physical lists the devices of the machine.
func (s *State) Physical() []PhysicalDevice { return slices.Clone(s.physical) }

// Build goes from S2 to SB, or from SB to SB with other devices: a session has built its own layout. As in TensorFlow,
// the configuration stays open. In S3 Build does nothing.
func (s *State) Build() {
	if !s.initialized {
		s.built, s.changed = true, false
	}
}

// Changed reports whether, in SB, a setting was made after the last session built devices: they may have to be built
// again.
func (s *State) Changed() bool { return s.built && s.changed }

// Initialize goes from S2 or SB to S3: from now on only equal values may be set. origin is the call that caused it, as
// "file:line (call)", for the errors of later setters. A second call does nothing.
func (s *State) Initialize(origin string) {
	if !s.initialized {
		s.origin = origin
	}
	s.initialized, s.built, s.changed = true, false, false
}

// Initialized reports whether devices exist: state SB or S3.
func (s *State) Initialized() bool { return s.initialized || s.built }

// gpuIndices are the GPUs among the physical devices.
func (s *State) gpuIndices() (indices []int) {
	for index, device := range s.physical {
		if device.Type == "GPU" {
			indices = append(indices, index)
		}
	}
	return indices
}

// find returns dev's index in physical, or the error that every setter and getter checks first.
func (s *State) find(dev Arg) (int, error) {
	if i := slices.Index(s.physical, dev.Device); i >= 0 {
		return i, nil
	}
	return 0, s.unrecognized(dev)
}

func (s *State) unrecognized(dev Arg) error {
	const enough = 8
	names := make([]string, 0, enough)
	for _, d := range s.physical[:min(len(s.physical), enough)] {
		names = append(names, d.Name)
	}
	known := "the physical devices are " + strings.Join(names, ", ")
	if more := len(s.physical) - enough; more > 0 {
		known += fmt.Sprintf(" and %d more", more)
	}
	if len(names) == 0 {
		known = "there are no physical devices"
	}
	if strings.HasPrefix(dev.repr(), "[") {
		known += ". Pass one of them, not a list"
	} else if len(names) > 0 && strings.ContainsAny(dev.repr()[:1], "'\"0123456789") {
		known += ". Pass an element of list_physical_devices(), not its name or number"
	}
	return status.Errorf(status.Value, "Unrecognized device: %s: %s", dev.repr(), known)
}

// tooLate is the error of a setter that is called after initialization: TensorFlow's text, the call that initialized
// the runtime, and what to do.
func (s *State) tooLate(text, remedy string) error {
	by := "The runtime is already initialized"
	if s.origin != "" {
		by = "The runtime was initialized by " + s.origin
	}
	separator := " "
	if !strings.HasSuffix(text, ".") {
		separator, by = ": ", "t"+by[1:]
	}
	return status.Errorf(status.State,
		"%s%s%s. %s before the first call that needs a device, or call gpuconf.reset() first.", text,
		separator, by, remedy)
}

// PhysicalDevice is a device of the machine. Two values are the same device if and only if they are equal.
type PhysicalDevice struct {
	Name string // "/physical_device:GPU:0": the number is the ordinal that the process sees
	Type string // "CPU" or "GPU"
}

// String returns the device formatted as by Python's repr().
func (d PhysicalDevice) String() string {
	return fmt.Sprintf("PhysicalDevice(name='%s', device_type='%s')", d.Name, d.Type)
}

// LogicalDevice is a device that programs compute on: a physical device or a part of one.
type LogicalDevice struct {
	Name string // "/device:GPU:0"
	Type string // "CPU" or "GPU"
}

// Arg is a device argument as the caller passed it.
type Arg struct {
	Device PhysicalDevice // its value; if the argument was not a device, it matches no physical device
	Repr   string         // its Python repr(), for messages; "" for that of Device
}

func (a Arg) repr() string {
	if a.Repr == "" {
		return a.Device.String()
	}
	return a.Repr
}

// LogicalConfig configures one logical device. A nil field was not given.
type LogicalConfig struct {
	MemoryLimitMiB *float64 // the limit of the device's pool, as TensorFlow reads it: see ExplicitLimit
	LimitBytes     *uint64  // the limit to the byte, instead of MemoryLimitMiB: gpuconf's own, of configure
	Priority       *int64   // the priority of the device's stream
	Ordinal        *int64   // the key by which the logical devices of all GPUs are sorted
}

// LogicalConfigs is the logical device configuration of one physical device. A list and a tuple with the same items are
// not equal, as in Python. A nil *LogicalConfigs was never set, which differs from having no items.
type LogicalConfigs struct {
	Tuple bool            // whether it was a tuple, not a list
	Items []LogicalConfig // one for each logical device
}

// clone returns a deep copy, so that callers cannot modify the state.
func (c LogicalConfigs) clone() *LogicalConfigs {
	items := make([]LogicalConfig, len(c.Items))
	for i, item := range c.Items {
		items[i] = LogicalConfig{
			MemoryLimitMiB: clonePointer(item.MemoryLimitMiB),
			LimitBytes:     clonePointer(item.LimitBytes),
			Priority:       clonePointer(item.Priority),
			Ordinal:        clonePointer(item.Ordinal),
		}
	}
	return &LogicalConfigs{Tuple: c.Tuple, Items: items}
}

func (c LogicalConfigs) equal(other LogicalConfigs) bool {
	return c.Tuple == other.Tuple && slices.EqualFunc(c.Items, other.Items, func(a, b LogicalConfig) bool {
		return a.equalLimit(b) &&
			equalPointers(a.Priority, b.Priority) && equalPointers(a.Ordinal, b.Ordinal)
	})
}

// hasLimit reports whether the device has a limit, which need not be valid.
func (c LogicalConfig) hasLimit() bool { return c.MemoryLimitMiB != nil || c.LimitBytes != nil }

// limit returns the bytes of the device's limit. An error means that it is invalid; setters reject that.
func (c LogicalConfig) limit() (limitBytes uint64, err error) {
	if c.LimitBytes != nil {
		return *c.LimitBytes, nil
	}
	return ExplicitLimit(*c.MemoryLimitMiB)
}

// equalLimit compares two numbers of MiB as Python does, and a number of bytes by what it limits.
func (c LogicalConfig) equalLimit(other LogicalConfig) bool {
	if c.LimitBytes == nil && other.LimitBytes == nil || !c.hasLimit() || !other.hasLimit() {
		return equalPointers(c.MemoryLimitMiB, other.MemoryLimitMiB) &&
			equalPointers(c.LimitBytes, other.LimitBytes)
	}
	a, errA := c.limit()
	b, errB := other.limit()
	return a == b && errA == nil && errB == nil
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// equalPointers compares like Python with None and numbers: nil equals only nil.
func equalPointers[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

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
