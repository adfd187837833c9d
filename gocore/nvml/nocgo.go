// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || !linux || !(amd64 || arm64)

package nvml

import (
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

// Open fails: NVML is called through C.
func Open() (gpu.Monitor, error) {
	return nil, status.Errorf(status.Unavailable,
		"NVML is not available: gpuconf was built without cgo, or not for Linux on x86-64 or arm64")
}
