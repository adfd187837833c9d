package placement

import (
	"gpuconf/gocore/devmgr"
	"gpuconf/gocore/devname"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/graph"
)

// logicalGPU is a logical GPU: its pool, and the arithmetic of the physical GPU below.
type logicalGPU struct {
	name        devname.Name
	description string
	manager     *devmgr.Manager
	number      int
	compute     gpu.Compute
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
	}, nil
}

// Name is the full name.
func (g *logicalGPU) Name() devname.Name { return g.name }

// Description tells which card it is.
func (g *logicalGPU) Description() string { return g.description }

// MemoryLimit is the pool's hard limit.
func (g *logicalGPU) MemoryLimit() (uint64, error) { return g.manager.LimitBytes(g.number) }

// Allocate takes a block of the pool; Free gives it back.
func (g *logicalGPU) Allocate(bytes uint64) (graph.Buffer, error) {
	block, err := g.manager.Allocate(g.number, bytes)
	return graph.Buffer{Addr: block.Addr, ID: block.ID}, err
}

// Free gives a block back.
func (g *logicalGPU) Free(b graph.Buffer) error { return g.manager.FreeID(b.Addr, b.ID) }

// CopyFromHost copies into a block; CopyToHost out of it.
func (g *logicalGPU) CopyFromHost(dst graph.Buffer, offset uint64, src []byte) error {
	return g.manager.CopyFromHost(dst.Addr, dst.ID, offset, src)
}

// CopyToHost copies out of a block.
func (g *logicalGPU) CopyToHost(dst []byte, src graph.Buffer, offset uint64) error {
	return g.manager.CopyToHost(src.Addr, src.ID, offset, dst)
}

// Compute is the GPU's arithmetic.
func (g *logicalGPU) Compute() gpu.Compute { return g.compute }
