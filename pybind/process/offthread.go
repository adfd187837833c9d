package process

import "gpuconf/gocore/gpu"

// offThread computes large products on a goroutine of their own. gonum shares a product out block by block, and who called it sleeps and
// wakes for each. A goroutine that was called from C is tied to its thread, so that each time would be a switch of threads: a
// third of the time of 512 by 512.
type offThread struct{ gpu.Compute }

// dispatched is the size of a product, in elements, from which gonum may share it out: four blocks of 64 by 64, the last ones small.
const dispatched = 64 * 64

// Gemm is the arithmetic's own.
func (o offThread) Gemm(g gpu.Gemm) error {
	if g.M*g.N <= dispatched {
		return o.Compute.Gemm(g)
	}
	done := make(chan error)
	go func() {
		var err error
		defer func() { done <- err }()
		defer Gate(&err) // no caller's can catch what panics here
		err = o.Compute.Gemm(g)
	}()
	return <-done
}
