package runtime

import (
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/host"
	"gpuconf/gocore/status"
)

// computeOn picks the arithmetic of a GPU: simulated memory is host memory.
func computeOn(hostVisible bool) func(gpu.Device) gpu.Compute {
	return func(d gpu.Device) gpu.Compute {
		if hostVisible {
			return host.Compute{}
		}
		return noCompute{d.Name}
	}
}

// noCompute is a GPU that nothing here can compute on.
type noCompute struct{ gpu string }

func (n noCompute) Gemm(gpu.Gemm) error { return n.err() }
func (n noCompute) Add(gpu.Add) error   { return n.err() }

func (n noCompute) err() error {
	return status.Errorf(status.Unimplemented, "gpuconf has no arithmetic for %s: compute on the CPU, with gpuconf.device(\"CPU:0\")", n.gpu)
}
