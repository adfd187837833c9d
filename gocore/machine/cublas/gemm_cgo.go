// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cublas

// #include "calls.h"
import "C"

import "gpuconf/gocore/machine/gpu"

// The workspace of a product is a few times the size of the result, because cuBLAS sums long products in parts. The
// minimum is NVIDIA's; with it no product fails for lack of workspace.
const (
	leastWorkspace   = 16 << 10
	mostWorkspace    = 4 << 20
	workspaceResults = 8
)

func workspaceBytes(g gpu.Gemm) uint64 {
	result := g.M * g.N * g.DType.Bytes()
	if result > mostWorkspace/workspaceResults {
		return mostWorkspace
	}
	return max(leastWorkspace, workspaceResults*result)
}

// Gemm multiplies two matrices.
func (c compute) Gemm(g gpu.Gemm) error {
	switch err := g.Check(); {
	case err != nil:
		return err
	case g.DType == gpu.Int32:
		return errNoInt32()
	case g.M == 0 || g.N == 0:
		return nil
	case g.K == 0:
		return c.library.driver.MemsetD8(c.ordinal, g.C, 0, g.M*g.N*g.DType.Bytes())
	}
	return c.withScratch(workspaceBytes(g), func(workspace uint64) error {
		call := byColumns(g)
		call.workspace, call.workspace_bytes = C.uint64_t(workspace), C.uint64_t(workspaceBytes(g))
		return c.run("a product", func(handle C.uint64_t) C.cublasStatus_t { return C.cublascall_gemm(handle, call) })
	})
}

// byColumns converts a product of row-major matrices to column-major: it computes the transpose of C from those of B
// and A.
func byColumns(g gpu.Gemm) C.struct_cublas_gemm {
	return C.struct_cublas_gemm{
		is_double:   flag(g.DType == gpu.Float64),
		transpose_a: flag(g.TransB), transpose_b: flag(g.TransA),
		m: C.uint64_t(g.N), n: C.uint64_t(g.M), k: C.uint64_t(g.K),
		a: C.uint64_t(g.B), lda: rowLength(g.TransB, g.K, g.N),
		b: C.uint64_t(g.A), ldb: rowLength(g.TransA, g.M, g.K),
		c: C.uint64_t(g.C), ldc: C.uint64_t(g.N),
	}
}

// rowLength returns the length of a stored row of a matrix that is rows × columns after the transposition.
func rowLength(trans bool, rows, columns uint64) C.uint64_t {
	if trans {
		return C.uint64_t(rows)
	}
	return C.uint64_t(columns)
}

func flag(on bool) C.int {
	if on {
		return 1
	}
	return 0
}
