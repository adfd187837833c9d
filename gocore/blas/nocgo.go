// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || !linux || !(amd64 || arm64)

package blas

import (
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

// found is never created.
type found struct{}

// look finds nothing: libraries are called through C.
func (l *Library) look() *search {
	const why = "gpuconf was built without cgo, or not for Linux on x86-64 or arm64"
	if l.choice == Auto {
		return &search{about: About{Complaints: []string{why}}}
	}
	return &search{err: status.Errorf(status.InvalidArgument, "GPUCONF_BLAS is %q, which cannot be used: %s", l.choice, why)}
}

func (f *found) takes(gpu.Gemm) bool { return false }

func (f *found) multiply(gpu.Gemm) {}
