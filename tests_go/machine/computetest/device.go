package computetest

import (
	"encoding/binary"
	"testing"

	"gpuconf/gocore/machine/gpu"
	"gpuconf/tests_go/attempt"
)

// Device is an implementation of arithmetic and the memory it works on. Memory from Allocate lives until the test ends.
type Device struct {
	gpu.Compute
	Allocate func(bytes uint64) uint64
	Write    func(addr uint64, src []byte)
	Read     func(dst []byte, addr uint64)
	Lacks    []gpu.DType // unsupported types
}

// number is an element type in Go.
type number interface{ float32 | float64 | int32 }

func typeOf[T number]() gpu.DType {
	switch any(*new(T)).(type) {
	case float32:
		return gpu.Float32
	case float64:
		return gpu.Float64
	}
	return gpu.Int32
}

// rawOf returns the values' bytes, so that NaN equals NaN.
func rawOf[T number](t *testing.T, values []T) []byte {
	t.Helper()
	return attempt.Get(binary.Append(nil, binary.NativeEndian, values))
}

// put writes values to new memory.
func put[T number](t *testing.T, d Device, values []T) uint64 {
	t.Helper()
	raw := rawOf(t, values)
	addr := d.Allocate(max(uint64(len(raw)), 64))
	d.Write(addr, raw)
	return addr
}

// get reads values back.
func get[T number](t *testing.T, d Device, addr uint64, n int) []T {
	t.Helper()
	values := make([]T, n)
	raw := make([]byte, uint64(n)*typeOf[T]().Bytes())
	d.Read(raw, addr)
	attempt.Get(binary.Decode(raw, binary.NativeEndian, values))
	return values
}
