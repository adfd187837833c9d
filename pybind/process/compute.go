package process

import (
	"strings"

	"gpuconf/gocore/config"
	"gpuconf/gocore/cublas"
	"gpuconf/gocore/devmgr"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/host"
)

// libraryFolders is the variable in which Python passes the folders where pip installs NVIDIA's libraries, one per line.
const libraryFolders = "GPUCONF_LIBRARY_FOLDERS"

// arithmetic returns a function that creates a logical GPU's gpu.Compute: cuBLAS on a real GPU, host arithmetic on a simulated one, whose
// memory is host memory.
func arithmetic(driver gpu.Driver, m *devmgr.Manager, env config.Env) func(number int, d gpu.Device) gpu.Compute {
	native, isNative := driver.(cublas.Driver)
	if !isNative {
		return func(int, gpu.Device) gpu.Compute { return offThread{host.Compute{}} }
	}
	library := cublas.New(native, strings.FieldsFunc(env[libraryFolders], func(r rune) bool { return r == '\n' }))
	return func(number int, d gpu.Device) gpu.Compute { return library.On(d.Ordinal, scratch{m, number}) }
}

// scratch allocates memory from a logical GPU's pool for the duration of an operation.
type scratch struct {
	manager *devmgr.Manager
	number  int
}

// Allocate allocates a block of the pool.
func (s scratch) Allocate(bytes uint64) (addr uint64, free func() error, err error) {
	block, err := s.manager.AllocateFor(s.number, bytes, Holder())
	return block.Addr, func() error { return s.manager.FreeID(block.Addr, block.ID) }, err
}
