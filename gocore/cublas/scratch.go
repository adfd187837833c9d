package cublas

import "gpuconf/gocore/status"

// withScratch calls use with memory that is given back afterwards.
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

// errNoInt32 is the answer to what cuBLAS can't.
func errNoInt32() error {
	return status.Errorf(status.Unimplemented, "cuBLAS has no int32: compute on the CPU, with gpuconf.device(\"CPU:0\")")
}
