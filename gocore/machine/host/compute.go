// SPDX-License-Identifier: Apache-2.0

package host

import "gpuconf/gocore/machine/gpu"

// Compute is a gpu.Compute on host addresses.
type Compute struct{}

var _ gpu.Compute = Compute{}

// Gemm multiplies two matrices.
func (Compute) Gemm(g gpu.Gemm) error {
	if err := g.Check(); err != nil || g.M == 0 || g.N == 0 {
		return err
	}
	if g.K == 0 {
		clear(elementsAt[byte](g.C, g.M*g.N*g.DType.Bytes()))
		return nil
	}
	switch g.DType {
	case gpu.Float32:
		gemmFloat(g, sgemm)
	case gpu.Float64:
		gemmFloat(g, dgemm)
	case gpu.Int32:
		gemmInt(g)
	}
	return nil
}

// Add sums two vectors.
func (Compute) Add(a gpu.Add) error {
	if err := a.Check(); err != nil || a.Count == 0 {
		return err
	}
	switch a.DType {
	case gpu.Float32:
		add[float32](a)
	case gpu.Float64:
		add[float64](a)
	case gpu.Int32:
		add[int32](a)
	}
	return nil
}

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
