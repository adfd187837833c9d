// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
)

// typeName returns TensorFlow's name of a type in a tensor's description: "float".
func typeName(d gpu.DType) string {
	switch d {
	case gpu.Float32:
		return "float"
	case gpu.Float64:
		return "double"
	}
	return d.String()
}

// typeConstant returns TensorFlow's name of a type in a node's attributes: "DT_FLOAT".
func typeConstant(d gpu.DType) string { return "DT_" + strings.ToUpper(typeName(d)) }

// formatFloat formats a number as TensorFlow does: the shortest text that parses as the same number.
func formatFloat(v float64, bits int) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	return strconv.FormatFloat(v, 'g', -1, bits)
}

// Shape is a tensor's size in each dimension; the empty shape is a scalar.
type Shape []int64

// maxRank is the maximum number of dimensions of a TensorFlow tensor.
const maxRank = 254

// String formats the shape like TensorFlow: "[2,3]".
func (s Shape) String() string {
	texts := make([]string, len(s))
	for i, size := range s {
		texts[i] = strconv.FormatInt(size, 10)
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// Equal reports whether two shapes are the same.
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }

// elements returns the number of elements. The shape must have passed check.
func (s Shape) elements() uint64 {
	n := uint64(1)
	for _, size := range s {
		n *= uint64(size)
	}
	return n
}

// bytes returns the size of a tensor of this shape. The shape must have passed check.
func (s Shape) bytes(d gpu.DType) uint64 { return s.elements() * d.Bytes() }

// check rejects an invalid shape: a negative size, too many dimensions, or 2**63 bytes or more.
func (s Shape) check(d gpu.DType) error {
	if len(s) > maxRank {
		return status.Errorf(status.InvalidArgument, "A tensor cannot have %d dimensions: the maximum is %d",
			len(s), maxRank)
	}
	empty := false
	for _, size := range s {
		if size < 0 {
			return status.Errorf(status.Value, "Dimension %d must be >= 0", size)
		}
		empty = empty || size == 0
	}
	if empty {
		return nil
	}
	total := d.Bytes()
	for _, size := range s {
		high, low := bits.Mul64(total, uint64(size))
		if high != 0 || low > math.MaxInt64 {
			return status.Errorf(status.InvalidArgument, "Shape %s of type %s would have more than 2**63 - 1 bytes", s,
				typeName(d))
		}
		total = low
	}
	return nil
}

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
	memory  Memory
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
	b.memory, b.bytes = d.list[memory].Memory, shape.bytes(dtype)
	if b.bytes > 0 {
		var err error
		if b.at.Addr, b.at.ID, err = b.memory.Allocate(b.bytes); err != nil {
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
	return t.buffer.memory.Free(t.buffer.at.Addr, t.buffer.at.ID)
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
		err = t.buffer.copyTo(0, dst)
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

// Value holds the contents of a tensor on the host: of a constant, or of a result.
type Value struct {
	DType gpu.DType // the type of the elements
	Shape Shape     // the length of each dimension
	// Bytes holds the elements in row-major order and native byte order. If there are fewer than in the shape, the last
	// one is repeated, as in TensorFlow's constants: one element fills a tensor.
	Bytes []byte
}

// check rejects an invalid value.
func (v Value) check() error {
	size := v.DType.Bytes()
	if size == 0 {
		return status.Errorf(status.InvalidType, "%d is not an element type: use float32, float64, int32 or bool",
			int(v.DType))
	}
	if err := v.Shape.check(v.DType); err != nil {
		return err
	}
	given, needed := uint64(len(v.Bytes))/size, v.Shape.elements()
	switch {
	case uint64(len(v.Bytes))%size != 0:
		return status.Errorf(status.InvalidArgument, "%d bytes is not a whole number of %s elements",
			len(v.Bytes), v.DType)
	case given > needed && given > 1:
		return status.Errorf(status.InvalidArgument, "Too many elements provided. Needed at most %d, but received %d",
			needed, given)
	case given == 0 && needed > 0:
		return status.Errorf(status.InvalidArgument, "Too few elements provided. Needed at least 1 for shape %s, "+
			"but received 0", v.Shape)
	}
	return nil
}

// piece fills dst with the value's bytes from offset. Both are multiples of the element size.
func (v Value) piece(dst []byte, offset uint64) {
	n := 0
	if offset < uint64(len(v.Bytes)) {
		n = copy(dst, v.Bytes[offset:])
	}
	rest := dst[n:]
	for n = copy(rest, v.Bytes[len(v.Bytes)-int(v.DType.Bytes()):]); n < len(rest); {
		n += copy(rest[n:], rest[:n])
	}
}

// clone returns a deep copy.
func (v Value) clone() Value {
	return Value{v.DType, slices.Clone(v.Shape), bytes.Clone(v.Bytes)}
}

// summary returns TensorFlow's description: "Tensor<type: float shape: [3,2] values: 1 2 3...>".
func (v Value) summary() string {
	const shown = 3
	size := v.DType.Bytes()
	n := v.Shape.elements()
	var texts []string
	for i := uint64(0); i < min(n, shown); i++ {
		at := min(i*size, uint64(len(v.Bytes))-size)
		texts = append(texts, formatElement(v.DType, v.Bytes[at:at+size]))
	}
	values := strings.Join(texts, " ")
	if n > shown {
		values += "..."
	}
	return "Tensor<type: " + typeName(v.DType) + " shape: " + v.Shape.String() + " values: " + values + ">"
}

func formatElement(d gpu.DType, raw []byte) string {
	switch d {
	case gpu.Float32:
		return formatFloat(float64(math.Float32frombits(binary.NativeEndian.Uint32(raw))), 32)
	case gpu.Float64:
		return formatFloat(math.Float64frombits(binary.NativeEndian.Uint64(raw)), 64)
	case gpu.Bool:
		return strconv.Itoa(int(raw[0]))
	}
	return strconv.Itoa(int(int32(binary.NativeEndian.Uint32(raw))))
}
