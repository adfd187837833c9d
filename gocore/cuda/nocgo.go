// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || !linux || !(amd64 || arm64)

package cuda

import (
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/status"
)

// Open fails: CUDA is called through C.
func Open() (gpu.Driver, error) {
	return nil, status.Errorf(status.Unavailable,
		"CUDA is not available: gpuconf was built without cgo, or not for Linux on x86-64 or arm64")
}

// OpenSimulator fails, too: the simulator is a library for C.
func OpenSimulator(string, []SimulatedCard, SimulatedOptions) (gpu.Driver, error) {
	return nil, status.Errorf(status.Unavailable, "GPUs cannot be simulated: gpuconf was built without cgo, or not for Linux on x86-64 or arm64")
}

// HasNoDevice returns false: no driver can be asked.
func HasNoDevice(string, string, *string) bool { return false }

// GuardedSimulator returns "": there is no library of gpuconf's.
func GuardedSimulator(string) string { return "" }

// ShippedSimulator returns "": there is no library of gpuconf's.
func ShippedSimulator() string { return "" }
