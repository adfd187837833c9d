// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
)

// Machine combines the resources that operations run on.
type Machine struct {
	Manager *devmgr.Manager                                   // the logical GPUs and their pools
	Memory  graph.Memory                                      // the memory of the CPUs
	CPU     gpu.Compute                                       // the arithmetic of the CPUs
	GPU     func(number int, physical gpu.Device) gpu.Compute // returns the arithmetic of a logical GPU
	Holder  func() holder.ID                                  // returns who holds what the calling thread allocates
}

// cpuMemoryLimit is the limit that TensorFlow reports for each CPU. Neither TensorFlow nor gpuconf enforces it.
const cpuMemoryLimit = 256 << 20

// Devices returns the first cpus CPUs and the first gpus GPUs of the Manager, for operations to run on.
func (m Machine) Devices(cpus, gpus int) (*graph.Devices, error) {
	list := make([]graph.Device, 0, cpus+gpus)
	for number := range cpus {
		list = append(list, graph.Device{
			Name:        devname.LocalDevice("CPU", number),
			MemoryLimit: func() (uint64, error) { return cpuMemoryLimit, nil },
			Memory:      m.Memory, Compute: m.CPU,
		})
	}
	for number := range gpus {
		physical, err := m.Manager.Physical(number)
		if err != nil {
			return nil, err
		}
		list = append(list, graph.Device{
			Name: devname.LocalDevice("GPU", number), Description: graph.DescribeGPU(physical),
			MemoryLimit: func() (uint64, error) { return m.Manager.LimitBytes(number) },
			Memory:      pool{m.Manager, number, m.Holder}, Compute: m.GPU(number, physical),
		})
	}
	return graph.NewDevices(list)
}

// pool is the memory of a logical GPU.
type pool struct {
	*devmgr.Manager
	number int
	holder func() holder.ID
}

// Allocate allocates a block from the pool; Free frees it.
func (p pool) Allocate(bytes uint64) (addr, id uint64, err error) {
	block, err := p.Manager.Allocate(p.number, bytes, p.holder())
	return block.Addr, block.ID, err
}

// Free frees a block.
func (p pool) Free(addr, id uint64) error { return p.FreeID(addr, id) }
