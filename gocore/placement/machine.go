package placement

import (
	"gpuconf/gocore/devmgr"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/graph"
)

// Memory is the computer's own memory, in blocks that are known by their address and a number.
type Memory interface {
	Allocate(bytes uint64) (addr, id uint64, err error)
	Free(addr, id uint64) error
	Write(addr, offset uint64, src []byte) error
	Read(dst []byte, addr, offset uint64) error
}

// Machine is what operations run on.
type Machine struct {
	Manager *devmgr.Manager
	Memory  Memory
	CPU     gpu.Compute
	GPU     func(number int, physical gpu.Device) gpu.Compute // the arithmetic of a logical GPU
}

// Devices gives so many CPUs and the first so many of the Manager's GPUs, as operations see them.
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
