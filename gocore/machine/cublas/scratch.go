// SPDX-License-Identifier: Apache-2.0

package cublas

import "gpuconf/gocore/base/status"

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
