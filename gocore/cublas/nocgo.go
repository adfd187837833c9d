// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || !linux || !(amd64 || arm64)

package cublas

import (
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

// handle is never created.
type handle struct{}

// Gemm fails: cuBLAS is called through C.
func (c compute) Gemm(gpu.Gemm) error { return errNoC() }

// Add fails, too.
func (c compute) Add(gpu.Add) error { return errNoC() }

func errNoC() error {
	return status.Errorf(status.Unavailable,
		"cuBLAS is not available: gpuconf was built without cgo, or not for Linux on x86-64 or arm64")
}
