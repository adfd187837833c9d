// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"

	"gpuconf/gocore/machine/gpu"
)

// broadcastShape applies NumPy's rule, which is TensorFlow's: shapes are aligned at their last dimensions, and a
// dimension that is missing or has size 1 is repeated. A size may be Unknown; against a size above 1 it must be that
// size, or 1.
func broadcastShape(a, b Shape) (Shape, string) {
	out := make(Shape, max(len(a), len(b)))
	for i := range out {
		x, y := aligned(a, len(out), i), aligned(b, len(out), i)
		switch {
		case x == y || y == 1 || y == Unknown && x > 1:
			out[i] = x
		case x == 1 || x == Unknown && y > 1:
			out[i] = y
		case x == Unknown || y == Unknown: // the other one is 0
			out[i] = Unknown
		default:
			return nil, fmt.Sprintf("Dimensions must be equal, but are %d and %d", x, y)
		}
	}
	return out, ""
}

// aligned returns dimension i of a shape that is padded with leading ones to rank dimensions.
func aligned(s Shape, rank, i int) int64 {
	if i -= rank - len(s); i < 0 {
		return 1
	}
	return s[i]
}

// axis is one loop of a broadcast sum: its length, and the strides of the three tensors, in elements.
type axis struct {
	size, out, a, b uint64
}

// axes converts a broadcast to as few loops as possible, outermost first. The result is not empty.
func axes(out, a, b Shape) []axis {
	var loops []axis
	stepOut, stepA, stepB := uint64(1), uint64(1), uint64(1)
	for i := len(out) - 1; i >= 0; i-- {
		x, y := uint64(aligned(a, len(out), i)), uint64(aligned(b, len(out), i))
		loop := axis{size: uint64(out[i]), out: stepOut}
		if x > 1 {
			loop.a = stepA
		}
		if y > 1 {
			loop.b = stepB
		}
		stepOut, stepA, stepB = stepOut*loop.size, stepA*x, stepB*y
		loops = appendLoop(loops, loop)
	}
	if len(loops) == 0 {
		loops = append(loops, axis{size: 1, out: 1})
	}
	slices.Reverse(loops)
	return loops
}

// appendLoop adds a loop outside the others, or extends the outermost loop if the new one continues it.
func appendLoop(loops []axis, loop axis) []axis {
	if loop.size == 1 {
		return loops
	}
	if len(loops) > 0 {
		last := &loops[len(loops)-1]
		if loop.out == last.out*last.size && loop.a == last.a*last.size && loop.b == last.b*last.size {
			last.size *= loop.size
			return loops
		}
	}
	return append(loops, loop)
}

// addBroadcast adds two tensors of different shapes: the longest loop is one vector call, inside the other loops.
func addBroadcast(compute gpu.Compute, dtype gpu.DType, out, a, b *Tensor) error {
	loops := axes(out.shape, a.shape, b.shape)
	longest := 0
	for i, loop := range loops {
		if loop.size > loops[longest].size {
			longest = i
		}
	}
	inner := loops[longest]
	loops = slices.Delete(loops, longest, longest+1)
	size := dtype.Bytes()
	at := make([]uint64, len(loops))
	for {
		var offset axis
		for i, loop := range loops {
			offset.out += at[i] * loop.out
			offset.a += at[i] * loop.a
			offset.b += at[i] * loop.b
		}
		err := compute.Add(gpu.Add{
			DType: dtype, Count: inner.size,
			Out: gpu.Vector{Addr: out.address() + offset.out*size, Step: inner.out},
			A:   gpu.Vector{Addr: a.address() + offset.a*size, Step: inner.a},
			B:   gpu.Vector{Addr: b.address() + offset.b*size, Step: inner.b},
		})
		if err != nil || !advance(at, loops) {
			return err
		}
	}
}

// advance increments the index at, the last loop fastest, and reports whether it is still in range.
func advance(at []uint64, loops []axis) bool {
	for i := len(at) - 1; i >= 0; i-- {
		if at[i]++; at[i] < loops[i].size {
			return true
		}
		at[i] = 0
	}
	return false
}
