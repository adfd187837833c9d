// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/tf/graph"
)

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
	block, err := g.manager.AllocateFor(g.number, bytes, g.holder())
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
