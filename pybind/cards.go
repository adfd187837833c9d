// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// Cards returns every card of the machine, without CUDA: a wire.Survey.
func Cards(env string) (survey string, err error) {
	defer process.Gate(&err)
	variables, err := decodeEnv(env)
	if err != nil {
		return "", err
	}
	return send(process.Shared().Survey(variables))
}

// Models returns the GPUs that can be simulated, a list of wire.SimulatedModel.
func Models() (catalogue string, err error) {
	defer process.Gate(&err)
	var list []wire.SimulatedModel
	for _, m := range models.Models() {
		list = append(list, wire.SimulatedModel{Name: m.Name, Product: m.Product, Memory: m.MemoryBytes,
			MemoryKind: m.MemoryKind().String(), ComputeCapability: [2]int{m.ComputeMajor, m.ComputeMinor}})
	}
	return wire.Encode(list)
}

// Identities returns the GPUs that the process sees, a list of wire.VisibleDevice.
func Identities() (devices string, err error) {
	defer process.Gate(&err)
	return send(process.Shared().Identities())
}

// SystemReserve returns the bytes of a GPU that TensorFlow leaves to the system by default, for a GPU whose memory is
// unused.
func SystemReserve(totalBytes, computeMajor int64) (bytes int64, err error) {
	defer process.Gate(&err)
	if totalBytes < 0 {
		return 0, status.Errorf(status.InvalidArgument, "totalBytes is %d: it must not be negative", totalBytes)
	}
	return int64(config.SystemReserve(uint64(totalBytes), int(computeMajor))), nil
}

// ContextBytes returns the bytes that a process's CUDA context takes on a GPU, as far as public figures tell.
func ContextBytes(totalBytes, computeMajor int64) (bytes int64, err error) {
	defer process.Gate(&err)
	if totalBytes < 0 {
		return 0, status.Errorf(status.InvalidArgument, "totalBytes is %d: it must not be negative", totalBytes)
	}
	return int64(models.ContextBytes(uint64(totalBytes), int(computeMajor))), nil
}
