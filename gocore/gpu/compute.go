package gpu

// DType is the type of a tensor's elements.
type DType int

// The element types that gpuconf computes with. The zero DType is none of them.
const (
	Float32 DType = iota + 1
	Float64
	Int32
)

// Bytes is the size of one element, 0 for a DType that is none.
func (d DType) Bytes() uint64 {
	switch d {
	case Float32, Int32:
		return 4
	case Float64:
		return 8
	}
	return 0
}

// String is NumPy's name: "float32".
func (d DType) String() string {
	switch d {
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	case Int32:
		return "int32"
	}
	return "invalid"
}

// Gemm is a matrix product: C becomes op(A) times op(B). op(A) has M rows and K columns, op(B) has K and N. A matrix is
// stored by rows without gaps; a transposed one is stored as what it is the transpose of.
type Gemm struct {
	DType          DType
	M, N, K        uint64
	TransA, TransB bool
	A, B, C        uint64 // device addresses
}

// Vector is Count elements at a device address, Step elements apart; Step 0 is one element Count times.
type Vector struct {
	Addr uint64
	Step uint64
}

// Add is an elementwise sum: Out[i] becomes A[i] + B[i] for each of Count elements.
type Add struct {
	DType     DType
	Count     uint64
	Out, A, B Vector // Out.Step is not 0
}

// Compute is arithmetic on one device's memory.
//
// # What gpuconf relies on
//
// These facts are checked by one conformance suite, tests_go/computetest, against every implementation.
//
//  1. Addresses are the device's own, and multiples of the element's size. What lies there is live and long enough: the caller
//     answers for that.
//  2. A result overlaps no operand, except that Add's Out may be exactly its A or its B.
//  3. Nothing but the result is written. An empty result writes nothing, and then no address is looked at.
//  4. An empty inner dimension (K is 0) gives zeros, and A and B are not looked at.
//  5. Floating-point values follow IEEE 754: NaN and infinities go through, and 0 times one of them is NaN. The order in which a
//     product is summed is the implementation's own, and the same every time.
//  6. Int32 wraps around. An implementation may lack a DType, which is Unimplemented.
//  7. A DType that is none, a size in bytes beyond 63 bits, an Out.Step of 0 and an address that is no multiple of the
//     element's size are InvalidArgument. No error writes anything.
//  8. A call returns when the result is there for every later copy or call.
//
// 9. Every method may be called from any goroutine at any time.
type Compute interface {
	Gemm(Gemm) error
	Add(Add) error
}
