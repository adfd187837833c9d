// SPDX-License-Identifier: Apache-2.0

package host

import "gpuconf/gocore/gpu"

// add sums vectors of at least one element.
func add[T float32 | float64 | int32](s gpu.Add) {
	out, a, b := vector[T](s.Out, s.Count), vector[T](s.A, s.Count), vector[T](s.B, s.Count)
	n := int(s.Count)
	stepOut, stepA, stepB := int(s.Out.Step), int(s.A.Step), int(s.B.Step)
	if stepOut != 1 || stepA != 1 || stepB != 1 {
		for i := range n {
			out[i*stepOut] = a[i*stepA] + b[i*stepB]
		}
		return
	}
	a, b = a[:n], b[:n]
	for i := range out[:n] {
		out[i] = a[i] + b[i]
	}
}

// vector returns the memory from a vector's first element to its last.
func vector[T any](v gpu.Vector, count uint64) []T { return elementsAt[T](v.Addr, (count-1)*v.Step+1) }
