// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "library.h"
import "C"

import (
	"fmt"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// failure returns a call's result as an error, nil for success. what is a format that describes the call; its arguments
// are numbers only, so that a successful call does not allocate.
func (d *driver) failure(result C.CUresult, what string, numbers ...uint64) error {
	switch {
	case result == 0:
		return nil
	case result < 0:
		return d.missing(int(-1 - result))
	}
	args := make([]any, len(numbers))
	for i, number := range numbers {
		args[i] = number
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(what, args...), gpu.Result(result))
}

// missing returns the error for a call to a function that the driver lacks.
func (d *driver) missing(symbol int) error {
	info := C.cuda_symbol_info(C.int(symbol))
	return status.Errorf(status.Unimplemented, "%s needs an NVIDIA driver for CUDA %s or newer, but this driver is "+
		"for CUDA %s: %w",
		C.GoString(info.name), version(info.version), version(d.version), gpu.ErrorNotSupported)
}

// noStreamMemOps returns the error for a device or driver without stream memory operations.
func (d *driver) noStreamMemOps(g *device) error {
	if C.cuda_has(C.SYMBOL_cuStreamWriteValue64) == 0 {
		return d.missing(C.SYMBOL_cuStreamWriteValue64)
	}
	return fmt.Errorf("GPU %d (%s) does not support 64-bit stream memory operations: %w", g.info.Ordinal, g.info.Name,
		gpu.ErrorNotSupported)
}

// version formats a CUDA version: 12040 is 12.4.
func version(number C.int) string { return fmt.Sprintf("%d.%d", number/1000, number%1000/10) }
