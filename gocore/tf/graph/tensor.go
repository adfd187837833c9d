// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"sync/atomic"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
)

// Tensor is an immutable array in a device's memory, which lives until it is released. Tensors can share a buffer, as
// after Identity.
type Tensor struct {
	devices *Devices
	dtype   gpu.DType
	shape   Shape
	device  int // the device that its operation ran on
	memory  int // the device whose memory it is in
	buffer  *buffer
	gone    atomic.Bool
}

// buffer is a block of device memory with the number of tensors that share it.
type buffer struct {
	device  Device
	at      Buffer
	bytes   uint64
	tensors atomic.Int64
}

// newTensor allocates an uninitialized tensor. The shape must have passed check.
func (d *Devices) newTensor(dtype gpu.DType, shape Shape, device, memory int) (*Tensor, error) {
	made := &struct { // one object instead of two
		tensor Tensor
		buffer buffer
	}{}
	b := &made.buffer
	b.device, b.bytes = d.list[memory], shape.bytes(dtype)
	if b.bytes > 0 {
		var err error
		if b.at, err = b.device.Allocate(b.bytes); err != nil {
			return nil, status.Errorf(status.CodeOf(err), "OOM when allocating tensor with shape%s and type %s on "+
				"%s: %w",
				shape, typeName(dtype), d.texts[memory], err)
		}
	}
	b.tensors.Store(1)
	t := &made.tensor
	t.devices, t.dtype, t.shape, t.device, t.memory, t.buffer = d, dtype, shape, device, memory, b
	return t, nil
}

// share returns another tensor of the same buffer; the caller must hold t.
func (t *Tensor) share(device int) *Tensor {
	t.buffer.tensors.Add(1)
	return &Tensor{devices: t.devices, dtype: t.dtype, shape: t.shape, device: device, memory: t.memory,
		buffer: t.buffer}
}

// hold keeps the buffer from being freed by a concurrent Release. The caller must call unhold.
func (t *Tensor) hold() error {
	for !t.gone.Load() {
		n := t.buffer.tensors.Load()
		if n == 0 {
			break
		}
		if t.buffer.tensors.CompareAndSwap(n, n+1) {
			return nil
		}
	}
	return status.Errorf(status.FailedPrecondition, "the tensor was already released")
}

// unhold ends a hold.
func (t *Tensor) unhold() error {
	if t.buffer.tensors.Add(-1) > 0 || t.buffer.bytes == 0 {
		return nil
	}
	return t.buffer.device.Free(t.buffer.at)
}

// Release releases the tensor; the last release of a buffer frees the memory. A second Release does nothing.
func (t *Tensor) Release() error {
	if t == nil || t.gone.Swap(true) {
		return nil
	}
	return t.unhold()
}

// DType returns the type of the elements.
func (t *Tensor) DType() gpu.DType { return t.dtype }

// Shape returns the tensor's shape. The caller must not change it.
func (t *Tensor) Shape() Shape { return t.shape }

// Bytes returns the size of the contents.
func (t *Tensor) Bytes() uint64 { return t.buffer.bytes }

// Device returns the full name of the device that the tensor's operation ran on.
func (t *Tensor) Device() string { return t.devices.texts[t.device] }

// BackingDevice returns the full name of the device whose memory the tensor is in.
func (t *Tensor) BackingDevice() devname.Name { return t.devices.names[t.memory] }

// Buffer returns the location of the contents, zero for a tensor without elements. It is valid until the tensor is
// released.
func (t *Tensor) Buffer() Buffer { return t.buffer.at }

// Read copies the contents to the host. The length of dst must be exactly Bytes.
func (t *Tensor) Read(dst []byte) error {
	if uint64(len(dst)) != t.buffer.bytes {
		return status.Errorf(status.InvalidArgument, "a buffer of %d bytes does not match a tensor of %d bytes",
			len(dst), t.buffer.bytes)
	}
	if err := t.hold(); err != nil {
		return err
	}
	var err error
	if len(dst) > 0 {
		err = t.buffer.device.CopyToHost(dst, t.buffer.at, 0)
	}
	return firstError(err, t.unhold)
}

func (t *Tensor) address() uint64 { return t.buffer.at.Addr }

// firstError runs cleanUp and returns err, or else the error of cleanUp.
func firstError(err error, cleanUp func() error) error {
	if cleanErr := cleanUp(); err == nil {
		return cleanErr
	}
	return err
}
