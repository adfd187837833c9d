// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

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
