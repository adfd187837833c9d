// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
)

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
