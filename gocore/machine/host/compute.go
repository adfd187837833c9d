// SPDX-License-Identifier: Apache-2.0

package host

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"gpuconf/gocore/machine/gpu"
)

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

// multiply is gonum's product of dense row-major matrices with alpha 1 and beta 0.
type multiply[T float32 | float64] func(ta, tb blas.Transpose, m, n, k int, a []T, lda int, b []T, ldb int,
	c []T, ldc int)

func sgemm(ta, tb blas.Transpose, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	gonum.Implementation{}.Sgemm(ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc)
}

func dgemm(ta, tb blas.Transpose, m, n, k int, a []float64, lda int, b []float64, ldb int, c []float64, ldc int) {
	gonum.Implementation{}.Dgemm(ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc)
}

// small is the number of multiplications up to which a plain loop is faster than a call of gonum.
const small = 64

// gemmFloat multiplies with gonum. No dimension is 0.
func gemmFloat[T float32 | float64](g gpu.Gemm, product multiply[T]) {
	if g.M <= small && g.N <= small && g.K <= small && g.M*g.N*g.K <= small {
		gemmPlain[T](g)
		return
	}
	a, b, c := elementsAt[T](g.A, g.M*g.K), elementsAt[T](g.B, g.K*g.N), elementsAt[T](g.C, g.M*g.N)
	product(transpose(g.TransA), transpose(g.TransB), int(g.M), int(g.N), int(g.K),
		a, columns(g.TransA, g.M, g.K), b, columns(g.TransB, g.K, g.N), c, int(g.N))
	restoreNotFinite(g, a, b, c)
}

func transpose(trans bool) blas.Transpose {
	if trans {
		return blas.Trans
	}
	return blas.NoTrans
}

// columns returns the length of a stored row of a matrix that is rows × cols after the transposition.
func columns(trans bool, rows, cols uint64) int {
	if trans {
		return int(rows)
	}
	return int(cols)
}

// restoreNotFinite corrects gonum's result. Where an element of A is 0, gonum skips the whole row of B, although 0
// times a NaN or an infinity is NaN. The pass over B costs 1/M of the product.
func restoreNotFinite[T float32 | float64](g gpu.Gemm, a, b, c []T) {
	rowA, colA := strides(g.TransA, g.M, g.K)
	rowB, colB := strides(g.TransB, g.K, g.N)
	if allFinite(b) {
		return
	}
	for l := range int(g.K) {
		for j := range int(g.N) {
			zero := b[l*rowB+j*colB] * 0
			if zero == 0 {
				continue
			}
			for i := range int(g.M) {
				if a[i*rowA+l*colA] == 0 {
					c[i*int(g.N)+j] += zero
				}
			}
		}
	}
}

// allFinite reports whether no element is NaN or infinite. Any of these times 0 is NaN, which makes the sum NaN.
func allFinite[T float32 | float64](values []T) bool {
	var sum0, sum1, sum2, sum3 T // separate sums, so that the additions do not depend on each other
	for len(values) >= 4 {
		sum0 += values[0] * 0
		sum1 += values[1] * 0
		sum2 += values[2] * 0
		sum3 += values[3] * 0
		values = values[4:]
	}
	for _, v := range values {
		sum0 += v * 0
	}
	return sum0+sum1+sum2+sum3 == 0
}

// strides returns the distances between rows and between columns of a matrix that is rows × cols
// after the transposition.
func strides(trans bool, rows, cols uint64) (row, col int) {
	if trans {
		return 1, int(rows)
	}
	return int(cols), 1
}

// gemmInt multiplies integers, wrapping around.
func gemmInt(g gpu.Gemm) { gemmPlain[int32](g) }

// gemmPlain multiplies with three loops. The inner one runs along rows of C, and of B unless it is transposed.
func gemmPlain[T float32 | float64 | int32](g gpu.Gemm) {
	a, b, c := elementsAt[T](g.A, g.M*g.K), elementsAt[T](g.B, g.K*g.N), elementsAt[T](g.C, g.M*g.N)
	rowA, colA := strides(g.TransA, g.M, g.K)
	rowB, colB := strides(g.TransB, g.K, g.N)
	clear(c)
	for i := range int(g.M) {
		row := c[i*int(g.N) : (i+1)*int(g.N)]
		for l := range int(g.K) {
			factor := a[i*rowA+l*colA]
			for j := range row {
				row[j] += factor * b[l*rowB+j*colB]
			}
		}
	}
}
