// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/models"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// Cards returns every card of the machine, without CUDA.
func (calls) Cards(env config.Env) (wire.Survey, error) { return process.Shared().Survey(env) }

// Models returns the GPUs that can be simulated.
func (calls) Models() (list []wire.SimulatedModel, err error) {
	for _, m := range models.Models() {
		list = append(list, wire.SimulatedModel{Name: m.Name, Product: m.Product, Memory: m.MemoryBytes,
			MemoryKind: m.MemoryKind().String(), ComputeCapability: [2]int{m.ComputeMajor, m.ComputeMinor}})
	}
	return list, nil
}

// Identities returns the GPUs that the process sees.
func (calls) Identities() ([]wire.VisibleDevice, error) { return process.Shared().Identities() }

// SystemReserve returns the bytes of a GPU that TensorFlow leaves to the system by default, for a GPU whose memory is
// unused.
func (calls) SystemReserve(totalBytes, computeMajor int64) (bytes uint64, err error) {
	return ofCard(config.SystemReserve, totalBytes, computeMajor)
}

// ContextBytes returns the bytes that a process's CUDA context takes on a GPU, as far as public figures tell.
func (calls) ContextBytes(totalBytes, computeMajor int64) (bytes uint64, err error) {
	return ofCard(models.ContextBytes, totalBytes, computeMajor)
}

func ofCard(rule func(total uint64, major int) uint64, totalBytes, computeMajor int64) (bytes uint64, err error) {
	if totalBytes < 0 {
		return 0, status.Errorf(status.InvalidArgument, "totalBytes is %d: it must not be negative", totalBytes)
	}
	return rule(uint64(totalBytes), int(computeMajor)), nil
}
