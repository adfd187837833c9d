// SPDX-License-Identifier: Apache-2.0

package process

import "gpuconf/gocore/machine/gpu"

// offThread computes large products on a separate goroutine. gonum distributes a product block by block, and its caller
// sleeps and wakes for each block. A goroutine called from C is locked to its thread, so each of these would be a
// thread switch, which takes a third of the time of a 512 × 512 product.
type offThread struct{ gpu.Compute }

// dispatched is the size of a product, in elements, above which gonum may distribute it: four blocks of 64 × 64, the
// last ones partial.
const dispatched = 64 * 64

// Gemm calls the wrapped Compute, on a separate goroutine if the product is large.
func (o offThread) Gemm(g gpu.Gemm) error {
	if g.M*g.N <= dispatched {
		return o.Compute.Gemm(g)
	}
	done := make(chan error)
	go func() {
		var err error
		defer func() { done <- err }()
		defer Gate(&err) // a caller cannot recover a panic of this goroutine
		err = o.Compute.Gemm(g)
	}()
	return <-done
}
