// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
)

// Device is a logical device as used by operations.
type Device struct {
	Name        devname.Name // the full name, which is unique
	Description string       // a GPU's card for the device mapping, as DescribeGPU has it; "" for a CPU
	// MemoryLimit returns the device's limit in bytes. It fails if the device no longer exists.
	MemoryLimit func() (uint64, error)
	Memory      Memory      // where the tensors of its operations are
	Compute     gpu.Compute // the arithmetic for the device's memory
}

// Memory is the memory of a device, in blocks that are identified by their address and a number. Its methods are safe
// for concurrent use.
type Memory interface {
	// Allocate allocates at least one byte, aligned for every element type; Free frees it.
	Allocate(bytes uint64) (addr, id uint64, err error)
	Free(addr, id uint64) error

	// CopyFromHost writes to a block at offset, and CopyToHost reads from it; both are synchronous.
	CopyFromHost(addr, id, offset uint64, src []byte) error
	CopyToHost(addr, id, offset uint64, dst []byte) error
}

// Buffer is a block of a device's memory. ID is the memory's, to distinguish it from an earlier block at the same
// address.
type Buffer struct {
	Addr, ID uint64 // the device address, and the number of the allocation
}

// Devices holds the devices of one runtime, which tensors and sessions belong to. Only its cache of placements changes.
type Devices struct {
	list  []Device
	names []devname.Name
	texts []string  // full names, by device
	types []typeSet // by device: the bit of its type
	host  int       // the first CPU, whose memory is the host memory

	placements map[Op]*atomic.Pointer[lastPlaced] // of eager operations

	preferred []int // in order of type priority, then of the name as a string: GPU:10 is before GPU:2, as in TensorFlow
}

// NewDevices returns a Devices of list, which is in the order of the device list and must contain a CPU.
func NewDevices(list []Device) (*Devices, error) {
	d := &Devices{list: slices.Clone(list), host: -1, placements: map[Op]*atomic.Pointer[lastPlaced]{}}
	for op := range kernels {
		d.placements[op] = &atomic.Pointer[lastPlaced]{}
	}
	for i, device := range list {
		name := device.Name
		if !name.IsComplete() || slices.Contains(d.names, name) {
			return nil, status.Errorf(status.InvalidArgument, "'%s' is not a full device name, or is listed twice",
				name)
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
		return cmp.Or(cmp.Compare(priority(d.names[i].Type), priority(d.names[j].Type)),
			strings.Compare(d.texts[i], d.texts[j]))
	})
	return d, nil
}

// find returns the most preferred device that matches the pattern and has one of the types, or -1.
func (d *Devices) find(pattern devname.Name, types typeSet) int {
	for _, i := range d.preferred {
		if d.allows(pattern, types, i) {
			return i
		}
	}
	return -1
}

// allows reports whether a device matches the pattern and has one of the types.
func (d *Devices) allows(pattern devname.Name, types typeSet, device int) bool {
	return types&d.types[device] != 0 && pattern.Matches(d.names[device])
}

// anyMatches reports whether a device matches the pattern, regardless of kernels.
func (d *Devices) anyMatches(pattern devname.Name) bool {
	return slices.ContainsFunc(d.names, pattern.Matches)
}

// soften removes the parts of a request that soft placement may ignore: the type and the number.
func soften(pattern devname.Name) devname.Name {
	pattern.HasType, pattern.Type, pattern.HasID, pattern.ID = false, "", false, 0
	return pattern
}

// memoryFor returns the device whose memory an operation on a device works in.
func (d *Devices) memoryFor(op Op, dtype gpu.DType, device int) int {
	if k := kernelFor(op, dtype, d.names[device].Type); k != nil && k.hostMemory {
		return d.host
	}
	return device
}

// preferredNames returns the full names in the order in which placement tries the devices.
func (d *Devices) preferredNames() string {
	names := make([]string, len(d.preferred))
	for i, device := range d.preferred {
		names[i] = d.texts[device]
	}
	return strings.Join(names, ", ")
}

// Request returns the device string for a node that requests own, "" for nothing, inside a scope: where own leaves a
// part open, the scope's counts.
func Request(own, scope string) (string, error) {
	request, err := devname.ParseSpec(own)
	if err != nil {
		return "", err
	}
	outer, err := devname.ParseSpec(scope)
	if err != nil {
		return "", err
	}
	return outer.Override(request).String(), nil
}

// stagingBytes is the size of the host buffer for copies between devices.
const stagingBytes = 1 << 20

// upload creates a tensor from a value.
func (d *Devices) upload(v Value, device, memory int) (*Tensor, error) {
	t, err := d.newTensor(v.DType, v.Shape, device, memory)
	if err != nil {
		return nil, err
	}
	if err := t.fill(v); err != nil {
		return nil, firstError(err, t.Release)
	}
	return t, nil
}

// fill writes a value into a new tensor.
func (t *Tensor) fill(v Value) error {
	to := t.buffer
	if to.bytes == 0 {
		return nil
	}
	if uint64(len(v.Bytes)) == to.bytes {
		return to.copyFrom(0, v.Bytes)
	}
	return pieces(to.bytes, func(offset uint64, staged []byte) error {
		v.piece(staged, offset)
		return to.copyFrom(offset, staged)
	})
}

func (b *buffer) copyFrom(offset uint64, src []byte) error {
	return b.memory.CopyFromHost(b.at.Addr, b.at.ID, offset, src)
}

func (b *buffer) copyTo(offset uint64, dst []byte) error {
	return b.memory.CopyToHost(b.at.Addr, b.at.ID, offset, dst)
}

// copyTo creates a tensor with the same contents in another device's memory.
func (t *Tensor) copyTo(memory int) (*Tensor, error) {
	out, err := t.devices.newTensor(t.dtype, t.shape, memory, memory)
	if err != nil {
		return nil, err
	}
	err = pieces(t.buffer.bytes, func(offset uint64, staged []byte) error {
		if err := t.buffer.copyTo(offset, staged); err != nil {
			return err
		}
		return out.buffer.copyFrom(offset, staged)
	})
	if err != nil {
		return nil, firstError(err, out.Release)
	}
	return out, nil
}

// pieces calls move for each piece of at most stagingBytes.
func pieces(bytes uint64, move func(offset uint64, staged []byte) error) error {
	staged := make([]byte, min(bytes, stagingBytes))
	for offset := uint64(0); offset < bytes; offset += stagingBytes {
		if err := move(offset, staged[:min(bytes-offset, stagingBytes)]); err != nil {
			return err
		}
	}
	return nil
}
