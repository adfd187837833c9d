// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
)

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
