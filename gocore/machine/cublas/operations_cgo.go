// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cublas

// #include "library.h"
import "C"

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

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

// The number of elements that one call sums: of dense vectors, which are matrices of one column; of strided vectors,
// which are matrices of one row; and of a vector and a scalar, where the scalar is repeated as often.
const (
	denseElements  = 1 << 30
	sparseElements = 1 << 20
	spreadElements = 1 << 16
)

// Add sums two vectors.
func (c compute) Add(a gpu.Add) error {
	switch err := a.Check(); {
	case err != nil:
		return err
	case a.DType == gpu.Int32:
		return errNoInt32()
	case a.Count == 0:
		return nil
	case a.Count == 1: // steps have no effect
		a.Out.Step, a.A.Step, a.B.Step = 1, 1, 1
	}
	return c.spread(a, a.A, func(x gpu.Vector) error {
		return c.spread(a, a.B, func(y gpu.Vector) error {
			return c.run("a sum", func(handle C.uint64_t) C.cublasStatus_t { return addPieces(handle, a, x, y) })
		})
	})
}

// spread calls use with an operand of a sum. A scalar is repeated in scratch memory as often as one piece needs it; its
// step stays 0, so every piece uses the same scratch memory.
func (c compute) spread(a gpu.Add, operand gpu.Vector, use func(gpu.Vector) error) error {
	if operand.Step != 0 {
		return use(operand)
	}
	bytes := min(a.Count, spreadElements) * a.DType.Bytes()
	return c.withScratch(bytes, func(scratch uint64) error {
		values := make([]byte, bytes)
		if err := c.library.driver.MemcpyDtoH(c.ordinal, values[:a.DType.Bytes()], operand.Addr); err != nil {
			return err
		}
		for n := int(a.DType.Bytes()); n < len(values); {
			n += copy(values[n:], values[:n])
		}
		if err := c.library.driver.MemcpyHtoD(c.ordinal, scratch, values); err != nil {
			return err
		}
		return use(gpu.Vector{Addr: scratch})
	})
}

// addPieces queues a sum, in as many calls as necessary.
func addPieces(handle C.uint64_t, a gpu.Add, x, y gpu.Vector) C.cublasStatus_t {
	dense := a.Out.Step == 1 && x.Step <= 1 && y.Step <= 1
	piece := uint64(sparseElements)
	switch {
	case x.Step == 0 || y.Step == 0:
		piece = spreadElements
	case dense:
		piece = denseElements
	}
	size := a.DType.Bytes()
	for at := uint64(0); at < a.Count; at += piece {
		n := min(piece, a.Count-at)
		call := C.struct_cublas_geam{
			is_double: flag(a.DType == gpu.Float64), m: 1, n: C.uint64_t(n),
			a: C.uint64_t(x.Addr + at*x.Step*size), lda: C.uint64_t(max(x.Step, 1)),
			b: C.uint64_t(y.Addr + at*y.Step*size), ldb: C.uint64_t(max(y.Step, 1)),
			c: C.uint64_t(a.Out.Addr + at*a.Out.Step*size), ldc: C.uint64_t(a.Out.Step),
		}
		if dense {
			call.m, call.n = C.uint64_t(n), 1
			call.lda, call.ldb, call.ldc = call.m, call.m, call.m
		}
		if answer := C.cublascall_geam(handle, call); answer != 0 {
			return answer
		}
	}
	return 0
}

// withScratch calls use with scratch memory, which it frees afterwards.
func (c compute) withScratch(bytes uint64, use func(addr uint64) error) error {
	addr, free, err := c.scratch.Allocate(bytes)
	if err != nil {
		return status.Errorf(status.CodeOf(err), "an operation needs %d bytes of scratch memory: %w", bytes, err)
	}
	err = use(addr)
	if freeErr := free(); err == nil {
		err = freeErr
	}
	return err
}

// errNoInt32 returns the error for operations on int32.
func errNoInt32() error {
	return status.Errorf(status.Unimplemented, "cuBLAS does not support int32; run the operation on the CPU with "+
		"gpuconf.device(\"CPU:0\")")
}
