package host

import (
	"math/bits"

	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

// Compute is arithmetic on host addresses: a gpu.Compute.
type Compute struct{}

var _ gpu.Compute = Compute{}

// Gemm multiplies two matrices.
func (Compute) Gemm(g gpu.Gemm) error {
	if err := checkGemm(g); err != nil || g.M == 0 || g.N == 0 {
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
	if err := checkAdd(a); err != nil || a.Count == 0 {
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

func checkGemm(g gpu.Gemm) error {
	size := g.DType.Bytes()
	if size == 0 {
		return errNoType(g.DType)
	}
	if !fits(g.M, g.N, size) || !fits(g.M, g.K, size) || !fits(g.K, g.N, size) {
		return status.Errorf(status.InvalidArgument, "a product of %d x %d and %d x %d matrices is too large to address", g.M, g.K, g.K, g.N)
	}
	if g.M == 0 || g.N == 0 {
		return nil
	}
	if g.K == 0 {
		return checkAligned(size, g.C)
	}
	return checkAligned(size, g.A, g.B, g.C)
}

func checkAdd(a gpu.Add) error {
	size := a.DType.Bytes()
	if size == 0 {
		return errNoType(a.DType)
	}
	if a.Count == 0 {
		return nil
	}
	for _, v := range []gpu.Vector{a.Out, a.A, a.B} {
		if !fits(a.Count, max(v.Step, 1), size) {
			return status.Errorf(status.InvalidArgument, "%d elements in steps of %d are too many to address", a.Count, v.Step)
		}
	}
	if a.Out.Step == 0 {
		return status.Errorf(status.InvalidArgument, "a sum has no room: the step of its result is 0")
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
			return status.Errorf(status.InvalidArgument, "0x%x is not an address of %d-byte elements", addr, size)
		}
	}
	return nil
}

func errNoType(d gpu.DType) error {
	return status.Errorf(status.InvalidArgument, "%d is not an element type", int(d))
}
