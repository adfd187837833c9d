// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"

	"gpuconf/gocore/devices/devmgr"
	"gpuconf/gocore/machine/blas"
	"gpuconf/gocore/machine/cublas"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/machine/host"
	"gpuconf/gocore/tf/config"
)

// The variables in which Python passes the folders where pip installs NVIDIA's libraries, those from which it imports
// modules, one per line, and the choice of the BLAS.
const (
	libraryFolders = "GPUCONF_LIBRARY_FOLDERS"
	moduleFolders  = "GPUCONF_MODULE_FOLDERS"
	blasChoice     = "GPUCONF_BLAS"
)

func linesOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

// onHost computes in host memory: large products by a BLAS if there is one, all else by package host.
type onHost struct {
	offThread
	library *blas.Library
}

func computeOnHost(env config.Env) gpu.Compute {
	return onHost{offThread: offThread{host.Compute{}}, library: blas.New(env[blasChoice], linesOf(env[moduleFolders]))}
}

// Gemm multiplies two matrices.
func (c onHost) Gemm(g gpu.Gemm) error {
	if done, err := c.library.Gemm(g); done || err != nil {
		return err
	}
	return c.offThread.Gemm(g)
}

// arithmetic returns a function that creates a logical GPU's gpu.Compute: cuBLAS on a real GPU, that of the host on a
// simulated one, whose memory is host memory.
func arithmetic(driver gpu.Driver, m *devmgr.Manager, env config.Env, cpu gpu.Compute) func(number int,
	d gpu.Device) gpu.Compute {
	native, isNative := driver.(cublas.Driver)
	if !isNative {
		return func(int, gpu.Device) gpu.Compute { return cpu }
	}
	library := cublas.New(native, linesOf(env[libraryFolders]))
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
