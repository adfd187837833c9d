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
