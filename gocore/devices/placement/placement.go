// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/devname"
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

// cpu is a logical CPU.
type cpu struct {
	name    devname.Name
	memory  Memory
	compute gpu.Compute
}

func newCPU(m Machine, number int) *cpu {
	return &cpu{name: devname.LocalDevice("CPU", number), memory: m.Memory, compute: m.CPU}
}

// Name returns the full name.
func (c *cpu) Name() devname.Name { return c.name }

// Description is empty for a CPU.
func (c *cpu) Description() string { return "" }

// cpuMemoryLimit is the limit that TensorFlow reports for each CPU. Neither TensorFlow nor gpuconf enforces it.
const cpuMemoryLimit = 256 << 20

// MemoryLimit returns a constant: the CPU has no real limit.
func (c *cpu) MemoryLimit() (uint64, error) { return cpuMemoryLimit, nil }

// Allocate allocates a block of host memory; Free frees it.
func (c *cpu) Allocate(bytes uint64) (graph.Buffer, error) {
	addr, id, err := c.memory.Allocate(bytes)
	return graph.Buffer{Addr: addr, ID: id}, err
}

// Free frees a block.
func (c *cpu) Free(b graph.Buffer) error { return c.memory.Free(b.Addr, b.ID) }

// CopyFromHost copies into a block.
func (c *cpu) CopyFromHost(dst graph.Buffer, offset uint64, src []byte) error {
	return c.memory.Write(dst.Addr, offset, src)
}

// CopyToHost copies out of a block.
func (c *cpu) CopyToHost(dst []byte, src graph.Buffer, offset uint64) error {
	return c.memory.Read(dst, src.Addr, offset)
}

// Compute returns the CPU's arithmetic.
func (c *cpu) Compute() gpu.Compute { return c.compute }

// logicalGPU is a logical GPU: its pool, and the arithmetic of its physical GPU.
type logicalGPU struct {
	name        devname.Name
	description string
	manager     *devmgr.Manager
	number      int
	compute     gpu.Compute
	holder      func() holder.ID
}

func newGPU(m Machine, number int) (*logicalGPU, error) {
	physical, err := m.Manager.Physical(number)
	if err != nil {
		return nil, err
	}
	return &logicalGPU{
		name:        devname.LocalDevice("GPU", number),
		description: graph.DescribeGPU(physical),
		manager:     m.Manager,
		number:      number,
		compute:     m.GPU(number, physical),
		holder:      m.Holder,
	}, nil
}

// Name returns the full name.
func (g *logicalGPU) Name() devname.Name { return g.name }

// Description identifies the card.
func (g *logicalGPU) Description() string { return g.description }

// MemoryLimit returns the pool's hard limit.
func (g *logicalGPU) MemoryLimit() (uint64, error) { return g.manager.LimitBytes(g.number) }

// Allocate allocates a block from the pool; Free frees it.
func (g *logicalGPU) Allocate(bytes uint64) (graph.Buffer, error) {
	block, err := g.manager.Allocate(g.number, bytes, g.holder())
	return graph.Buffer{Addr: block.Addr, ID: block.ID}, err
}

// Free frees a block.
func (g *logicalGPU) Free(b graph.Buffer) error { return g.manager.FreeID(b.Addr, b.ID) }

// CopyFromHost copies into a block.
func (g *logicalGPU) CopyFromHost(dst graph.Buffer, offset uint64, src []byte) error {
	return g.manager.CopyFromHost(dst.Addr, dst.ID, offset, src)
}

// CopyToHost copies out of a block.
func (g *logicalGPU) CopyToHost(dst []byte, src graph.Buffer, offset uint64) error {
	return g.manager.CopyToHost(src.Addr, src.ID, offset, dst)
}

// Compute returns the GPU's arithmetic.
func (g *logicalGPU) Compute() gpu.Compute { return g.compute }
