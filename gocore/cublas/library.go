package cublas

import (
	"sync"

	"gpuconf/gocore/gpu"
)

// Driver is what cuBLAS needs: the GPUs and their contexts.
type Driver interface {
	gpu.Driver
	gpu.Native
}

// Scratch gives memory that an operation needs beside its operands and its result, of the same GPU and for its default stream; free
// gives it back.
type Scratch interface {
	Allocate(bytes uint64) (addr uint64, free func() error, err error)
}

// Library is cuBLAS on the GPUs of a driver. It ends with the contexts.
type Library struct {
	driver  Driver
	folders []string

	mu      sync.Mutex
	handles map[int]*handle // guarded by mu; by ordinal
}

// New makes a Library. Nothing is loaded yet. folders are where wheels put NVIDIA's libraries: ".../site-packages/nvidia".
func New(driver Driver, folders []string) *Library {
	return &Library{driver: driver, folders: folders, handles: map[int]*handle{}}
}

// On is the arithmetic of a GPU, with scratch memory from a pool there.
func (l *Library) On(ordinal int, scratch Scratch) gpu.Compute {
	return compute{library: l, ordinal: ordinal, scratch: scratch}
}

// compute is one logical GPU's arithmetic.
type compute struct {
	library *Library
	ordinal int
	scratch Scratch
}
