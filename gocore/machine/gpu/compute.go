// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"math/bits"

	"gpuconf/gocore/base/status"
)

// DType is the type of a tensor's elements.
type DType int

// The element types that gpuconf supports. The zero DType is invalid.
const (
	Float32 DType = iota + 1
	Float64
	Int32
	Bool // a byte, 0 or 1. There is no arithmetic on it
)

// DTypes lists the element types.
var DTypes = []DType{Float32, Float64, Int32, Bool}

var dtypes = [...]struct {
	name  string // NumPy's
	bytes uint64
}{{"invalid", 0}, Float32: {"float32", 4}, Float64: {"float64", 8}, Int32: {"int32", 4}, Bool: {"bool", 1}}

func (d DType) known() DType {
	if d < 0 || int(d) >= len(dtypes) {
		return 0
	}
	return d
}

// Bytes returns the size of one element, or 0 for an invalid DType.
func (d DType) Bytes() uint64 { return dtypes[d.known()].bytes }

// String returns NumPy's name for the type: "float32".
func (d DType) String() string { return dtypes[d.known()].name }

// Gemm describes a matrix product, C = op(A) × op(B). op(A) is M × K and op(B) is K × N. Matrices are dense and
// row-major. With TransA, A is stored as a K × M matrix and op transposes it; likewise TransB.
type Gemm struct {
	DType          DType  // of all elements
	M, N, K        uint64 // op(A) is M × K, op(B) is K × N, and C is M × N
	TransA, TransB bool   // whether op transposes A, and B
	A, B, C        uint64 // the device addresses of the first elements
}

// Vector is an operand of an Add, or its result.
type Vector struct {
	Addr uint64 // the device address of the first element
	Step uint64 // the distance from one element to the next, in elements; 0 repeats one element
}

// Add describes an elementwise sum: Out[i] = A[i] + B[i] for each of Count elements.
type Add struct {
	DType     DType  // of all elements
	Count     uint64 // the number of elements
	Out, A, B Vector // Out.Step is not 0
}

// Compute does arithmetic on one device's memory.
//
// # What gpuconf relies on
//
// One conformance suite, tests_go/machine/computetest, checks these facts against every implementation.
//
//  1. Addresses are device addresses, and multiples of the element size. The caller guarantees that the memory there is
//     live and large enough.
//  2. The result overlaps no operand, except that Add's Out may be exactly its A or its B.
//  3. Only the result is written. If the result is empty, nothing is written and no address is read or checked.
//  4. An empty inner dimension (K is 0) produces zeros; A and B are not read.
//  5. Floating-point values follow IEEE 754: NaN and infinities propagate, and 0 times one of them is NaN. The
//     implementation chooses the order of summation, and it is the same every time.
//  6. Int32 wraps around. An implementation may not support a DType; it then returns Unimplemented. None supports Bool.
//  7. An invalid DType, a size in bytes beyond 63 bits, an Out.Step of 0 and an address that is not a multiple of the
//     element size are InvalidArgument. On error, nothing is written.
//  8. A call returns when its result is visible to every later copy or call.
//  9. Every method may be called from any goroutine at any time.
type Compute interface {
	Gemm(Gemm) error
	Add(Add) error
}

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
