package graph

import (
	"cmp"
	"slices"
	"strings"

	"gpuconf/gocore/devname"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

// Device is what operations need of a logical device. Its methods may be called from any goroutine at any time.
type Device interface {
	// Name is the full name, which no other device has.
	Name() devname.Name
	// Description tells what stands behind a GPU, for the device mapping; DescribeGPU makes it. "" for a CPU.
	Description() string
	// MemoryLimit is the most bytes that the device hands out. It fails where the device is gone.
	MemoryLimit() (uint64, error)

	// Allocate takes memory for at least one byte, at an address that suits every element type; Free gives it back.
	Allocate(bytes uint64) (Buffer, error)
	Free(Buffer) error

	// CopyFromHost writes into a buffer from offset on and CopyToHost reads out of it; both return when that is done.
	CopyFromHost(dst Buffer, offset uint64, src []byte) error
	CopyToHost(dst []byte, src Buffer, offset uint64) error

	// Compute is the arithmetic on the device's memory.
	Compute() gpu.Compute
}

// Buffer is a piece of a device's memory. ID is the device's own, to tell it from an earlier one at the same address.
type Buffer struct {
	Addr, ID uint64
}

// Devices is the devices of one runtime, and what tensors and sessions belong to. It never changes.
type Devices struct {
	list  []Device
	names []devname.Name
	texts []string  // full names, by device
	types []typeSet // by device: the bit of its type
	host  int       // the first CPU: its memory serves whatever is in host memory

	preferred []int // by type as placement likes them, then by name as text: GPU:10 is before GPU:2, as in TensorFlow
}

// NewDevices takes the devices in the order of the device list. One must be a CPU.
func NewDevices(list []Device) (*Devices, error) {
	d := &Devices{list: slices.Clone(list), host: -1}
	for i, device := range list {
		name := device.Name()
		if !name.IsComplete() || slices.Contains(d.names, name) {
			return nil, status.Errorf(status.InvalidArgument, "'%s' is not a full device name, or is listed twice", name)
		}
		d.names = append(d.names, name)
		d.texts = append(d.texts, name.String())
		d.types = append(d.types, setOf(name.Type))
		d.preferred = append(d.preferred, i)
		if name.Type == "CPU" && d.host < 0 {
			d.host = i
		}
	}
	if d.host < 0 {
		return nil, status.Errorf(status.FailedPrecondition, "no CPU device is available: make one visible")
	}
	slices.SortFunc(d.preferred, func(i, j int) int {
		return cmp.Or(cmp.Compare(priority(d.names[i].Type), priority(d.names[j].Type)), strings.Compare(d.texts[i], d.texts[j]))
	})
	return d, nil
}

// find gives the device that placement takes among those that match the pattern and whose type will do, or -1.
func (d *Devices) find(pattern devname.Name, types typeSet) int {
	for _, i := range d.preferred {
		if d.allows(pattern, types, i) {
			return i
		}
	}
	return -1
}

// allows reports whether a device matches the pattern and has a type that will do.
func (d *Devices) allows(pattern devname.Name, types typeSet, device int) bool {
	return types&d.types[device] != 0 && pattern.Matches(d.names[device])
}

// anyMatches reports whether a device matches the pattern, kernel or not.
func (d *Devices) anyMatches(pattern devname.Name) bool {
	return slices.ContainsFunc(d.names, pattern.Matches)
}

// soften drops what soft placement may ignore of a request: the type and the number.
func soften(pattern devname.Name) devname.Name {
	pattern.HasType, pattern.Type, pattern.HasID, pattern.ID = false, "", false, 0
	return pattern
}

// memoryFor is the device whose memory an operation on a device works in.
func (d *Devices) memoryFor(op Op, dtype gpu.DType, device int) int {
	if k := kernelFor(op, dtype, d.names[device].Type); k != nil && k.hostMemory {
		return d.host
	}
	return device
}

// allNames lists the full names for an error.
func (d *Devices) allNames() string { return strings.Join(d.texts, ", ") }

// preferredNames lists them in the order in which placement tries them.
func (d *Devices) preferredNames() string {
	names := make([]string, len(d.preferred))
	for i, device := range d.preferred {
		names[i] = d.texts[device]
	}
	return strings.Join(names, ", ")
}
