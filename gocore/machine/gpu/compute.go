// SPDX-License-Identifier: Apache-2.0

package gpu

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

// Bytes returns the size of one element, or 0 for an invalid DType.
func (d DType) Bytes() uint64 {
	switch d {
	case Float32, Int32:
		return 4
	case Float64:
		return 8
	case Bool:
		return 1
	}
	return 0
}

// String returns NumPy's name for the type: "float32".
func (d DType) String() string {
	switch d {
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	case Int32:
		return "int32"
	case Bool:
		return "bool"
	}
	return "invalid"
}

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
