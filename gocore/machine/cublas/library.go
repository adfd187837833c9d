// SPDX-License-Identifier: Apache-2.0

package cublas

import (
	"sync"

	"gpuconf/gocore/machine/gpu"
)

// Driver is what this package needs: the GPUs and their contexts.
type Driver interface {
	gpu.Driver
	gpu.Native
}

// Scratch allocates the memory that an operation needs besides its operands and its result, on the same GPU and for its
// default stream. free releases it.
type Scratch interface {
	Allocate(bytes uint64) (addr uint64, free func() error, err error)
}

// Library is cuBLAS on the GPUs of a driver. Its handles are destroyed with the contexts.
type Library struct {
	driver  Driver
	folders []string

	mu      sync.Mutex
	handles map[int]*handle // guarded by mu; by ordinal
}

// New returns a Library without loading anything. folders are where wheels install NVIDIA's libraries:
// ".../site-packages/nvidia".
func New(driver Driver, folders []string) *Library {
	return &Library{driver: driver, folders: folders, handles: map[int]*handle{}}
}

// On returns a gpu.Compute for a GPU, with scratch memory from a pool there.
func (l *Library) On(ordinal int, scratch Scratch) gpu.Compute {
	return compute{library: l, ordinal: ordinal, scratch: scratch}
}

// compute is the gpu.Compute of one logical GPU.
type compute struct {
	library *Library
	ordinal int
	scratch Scratch
}
