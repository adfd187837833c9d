package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuconf/gocore/status"
)

// State is one program's configuration (state S2, SB or S3 of the package comment). It has no lock: its owner guards
// it. It is plain data; Clone copies it and reflect.DeepEqual compares it.
type State struct {
	physical []PhysicalDevice // as enumerated; never changes

	visible []int             // indices into physical, in the caller's order, duplicates kept
	growth  []*int64          // by physical index; nil is None; only GPUs have one
	logical []*LogicalConfigs // by physical index; nil was never set

	switches switches
	imported Options // what Import took over; its lists are in visible and logical

	built       []LayoutDevice // what sessions have built, in SB; never changes
	initialized bool           // S3
	origin      string         // who built the devices: "file:line (call)", or ""
}

// New is the state right after enumeration: everything visible, nothing configured.
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

// Clone gives an independent copy. What the pointers inside point to never changes, so it is shared.
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

// DetailsIndex gives dev's index in Physical, for reading the device's details.
func (s *State) DetailsIndex(dev Arg) (int, error) {
	if i := slices.Index(s.physical, dev.Device); i >= 0 {
		return i, nil
	}
	return 0, status.Errorf(status.InvalidArgument, "The PhysicalDevice must be one obtained from calling "+
		"`tf.config.list_physical_devices`, but got: %s", dev.repr())
}

// Build goes from S2 to SB, or from SB to SB with other devices: a session has built a layout of its own. From here on a setter may
// ask only for what is built. origin says whose session it is, as "file:line (call)", for the errors of later setters. In S3 it
// does nothing.
func (s *State) Build(layout Layout, origin string) {
	if !s.initialized {
		s.built, s.origin = layout.Devices, origin
	}
}

// Initialize goes from S2 or SB to S3: from here on only equal values may be set. In S2 the caller has carried out a Layout, and
// origin says who caused it. A second call does nothing.
func (s *State) Initialize(origin string) {
	if !s.Initialized() {
		s.origin = origin
	}
	s.initialized, s.built = true, nil
}

// Initialized reports whether there are devices: state SB or S3.
func (s *State) Initialized() bool { return s.initialized || s.built != nil }

// frozen reports whether a setter of a new value comes too late: always in S3, and in SB unless it asks for what is built.
func (s *State) frozen(asksFor func(built []LayoutDevice) bool) bool {
	return s.initialized || s.built != nil && !asksFor(s.built)
}

// gpuIndices are the GPUs among the physical devices.
func (s *State) gpuIndices() (indices []int) {
	for index, device := range s.physical {
		if device.Type == "GPU" {
			indices = append(indices, index)
		}
	}
	return indices
}

// find gives dev's index in physical, or the error that every setter and getter begins with.
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
	return status.Errorf(status.InvalidArgument, "Unrecognized device: %s: %s", dev.repr(), known)
}

// tooLate is the error of a setter that comes after initialization: TensorFlow's text, who initialized the runtime
// and where, and what to do.
func (s *State) tooLate(text, remedy string) error {
	by := "The runtime is already initialized"
	if s.origin != "" {
		by = "The runtime was initialized by " + s.origin
	}
	separator := " "
	if !strings.HasSuffix(text, ".") {
		separator, by = ": ", "t"+by[1:]
	}
	return status.Errorf(status.FailedPrecondition,
		"%s%s%s. %s before the first call that needs a device, or call gpuconf.reset() first.", text, separator, by, remedy)
}
