// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"math/bits"

	"gpuconf/gocore/base/status"
)

// Check returns an error if an argument is invalid by fact 7 of Compute. Every implementation calls it first.
func (g Gemm) Check() error {
	size := g.DType.Bytes()
	if err := checkArithmetic(g.DType); err != nil {
		return err
	}
	if !fits(g.M, g.N, size) || !fits(g.M, g.K, size) || !fits(g.K, g.N, size) {
		return status.Errorf(status.InvalidArgument, "the product of a %d x %d and a %d x %d matrix exceeds 63-bit "+
			"sizes", g.M, g.K, g.K, g.N)
	}
	if g.M == 0 || g.N == 0 {
		return nil
	}
	if g.K == 0 {
		return checkAligned(size, g.C)
	}
	return checkAligned(size, g.A, g.B, g.C)
}

// Check returns an error if an argument is invalid by fact 7 of Compute. Every implementation calls it first.
func (a Add) Check() error {
	size := a.DType.Bytes()
	if err := checkArithmetic(a.DType); err != nil {
		return err
	}
	if a.Count == 0 {
		return nil
	}
	for _, v := range []Vector{a.Out, a.A, a.B} {
		if !fits(a.Count, max(v.Step, 1), size) {
			return status.Errorf(status.InvalidArgument, "%d elements with step %d exceed 63-bit sizes",
				a.Count, v.Step)
		}
	}
	if a.Out.Step == 0 {
		return status.Errorf(status.InvalidArgument, "the step of a sum's result must not be 0")
	}
	return checkAligned(size, a.Out.Addr, a.A.Addr, a.B.Addr)
}

// fits reports whether a product of three sizes stays within 63 bits.
func fits(a, b, c uint64) bool {
	high, product := bits.Mul64(a, b)
	if high != 0 {
		return false
	}
	high, product = bits.Mul64(product, c)
	return high == 0 && product < 1<<63
}

func checkAligned(size uint64, addresses ...uint64) error {
	for _, addr := range addresses {
		if addr == 0 || addr%size != 0 {
			return status.Errorf(status.InvalidArgument, "invalid address 0x%x: must be a nonzero multiple of the "+
				"element size, %d bytes", addr, size)
		}
	}
	return nil
}

func checkArithmetic(d DType) error {
	switch {
	case d == Bool:
		return status.Errorf(status.Unimplemented, "there is no arithmetic on elements of type %s", d)
	case d.Bytes() == 0:
		return status.Errorf(status.InvalidArgument, "invalid element type %d", int(d))
	}
	return nil
}
