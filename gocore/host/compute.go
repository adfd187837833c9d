// SPDX-License-Identifier: Apache-2.0

package host

import "gpuconf/gocore/gpu"

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
