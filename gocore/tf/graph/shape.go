// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

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
