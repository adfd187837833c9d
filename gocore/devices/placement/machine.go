// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
)

// Memory is host memory, in blocks that are identified by their address and a number.
type Memory interface {
	Allocate(bytes uint64) (addr, id uint64, err error)
	Free(addr, id uint64) error
	Write(addr, offset uint64, src []byte) error
	Read(dst []byte, addr, offset uint64) error
}

// Machine combines the resources that operations run on.
type Machine struct {
	Manager *devmgr.Manager                                   // the logical GPUs and their pools
	Memory  Memory                                            // the memory of the CPUs
	CPU     gpu.Compute                                       // the arithmetic of the CPUs
	GPU     func(number int, physical gpu.Device) gpu.Compute // returns the arithmetic of a logical GPU
	Holder  func() holder.ID                                  // returns who holds what the calling thread allocates
}

// Devices returns the first cpus CPUs and the first gpus GPUs of the Manager, for operations to run on.
func (m Machine) Devices(cpus, gpus int) (*graph.Devices, error) {
	list := make([]graph.Device, 0, cpus+gpus)
	for number := range cpus {
		list = append(list, newCPU(m, number))
	}
	for number := range gpus {
		d, err := newGPU(m, number)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return graph.NewDevices(list)
}
