package config

import (
	"fmt"
	"slices"
)

// PhysicalDevice is a device of the machine. Two are the same device exactly when they are equal.
type PhysicalDevice struct {
	Name string // "/physical_device:GPU:0": the number is the ordinal that the process sees
	Type string // "CPU" or "GPU"
}

// String is the device as Python's repr() shows it.
func (d PhysicalDevice) String() string {
	return fmt.Sprintf("PhysicalDevice(name='%s', device_type='%s')", d.Name, d.Type)
}

// LogicalDevice is what programs compute on: a physical device or a part of one.
type LogicalDevice struct {
	Name string // "/device:GPU:0"
	Type string
}

// Arg is what a caller passed as a device. Device is its value, one that matches no physical device if it was
// something else; Repr is Python's repr() of it, for messages. An empty Repr stands for Device's own.
type Arg struct {
	Device PhysicalDevice
	Repr   string
}

func (a Arg) repr() string {
	if a.Repr == "" {
		return a.Device.String()
	}
	return a.Repr
}

// LogicalConfig asks for one logical device. A nil field was not given.
type LogicalConfig struct {
	MemoryLimitMiB *float64
	Priority       *int64
	Ordinal        *int64
}

// LogicalConfigs is what a caller asked for one physical device. A list and a tuple with the same items are
// not equal, as in Python. A nil *LogicalConfigs was never set, which is not the same as no items.
type LogicalConfigs struct {
	Tuple bool
	Items []LogicalConfig
}

// clone gives a copy that shares nothing with c, so that no caller can reach into the state.
func (c LogicalConfigs) clone() *LogicalConfigs {
	items := make([]LogicalConfig, len(c.Items))
	for i, item := range c.Items {
		items[i] = LogicalConfig{
			MemoryLimitMiB: clonePointer(item.MemoryLimitMiB),
			Priority:       clonePointer(item.Priority),
			Ordinal:        clonePointer(item.Ordinal),
		}
	}
	return &LogicalConfigs{Tuple: c.Tuple, Items: items}
}

func (c LogicalConfigs) equal(other LogicalConfigs) bool {
	return c.Tuple == other.Tuple && slices.EqualFunc(c.Items, other.Items, func(a, b LogicalConfig) bool {
		return equalPointers(a.MemoryLimitMiB, b.MemoryLimitMiB) &&
			equalPointers(a.Priority, b.Priority) && equalPointers(a.Ordinal, b.Ordinal)
	})
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// equalPointers compares as Python compares None and numbers: nil only equals nil.
func equalPointers[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
