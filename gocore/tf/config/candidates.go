// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// Candidate is a visible GPU that may become a physical device.
type Candidate struct {
	Ordinal         int    // the CUDA ordinal
	Name            string // the name that the driver reports
	PCIBusID        string // such as "0000:17:00.0"
	ComputeMajor    int    // 9 of compute capability 9.0
	ComputeMinor    int    // 0 of compute capability 9.0
	Multiprocessors int    // the number of streaming multiprocessors
}

// The minimum compute capability, and the number of multiprocessors that is enough whatever other GPUs the machine has.
const (
	minComputeMajor, minComputeMinor = 3, 5
	enoughMultiprocessors            = 8
)

// UsableGPUs returns the indices of the candidates that become physical devices. The others have too low a compute
// capability, or too few multiprocessors: fewer than TF_MIN_GPU_MULTIPROCESSOR_COUNT or, if that is not set, fewer than
// both 8 and the largest candidate.
func UsableGPUs(candidates []Candidate, env Env) (usable []int, notices []Notice) {
	minimum, notices := env.minMultiprocessors(defaultMinMultiprocessors(candidates))
	for i, c := range candidates {
		switch {
		case c.ComputeMajor < minComputeMajor || c.ComputeMajor == minComputeMajor && c.ComputeMinor < minComputeMinor:
			notices = append(notices, info("Ignoring visible gpu device (%s) with Cuda compute capability %d.%d. "+
				"The minimum required Cuda capability is %d.%d.",
				c, c.ComputeMajor, c.ComputeMinor, minComputeMajor, minComputeMinor))
		case c.Multiprocessors < minimum:
			notices = append(notices,
				info("Ignoring visible gpu device (%s) with core count: %d. The minimum required count is "+
					"%d. You can adjust this requirement with the env var TF_MIN_GPU_MULTIPROCESSOR_COUNT.",
					c, c.Multiprocessors, minimum))
		default:
			usable = append(usable, i)
		}
	}
	return usable, notices
}

func defaultMinMultiprocessors(candidates []Candidate) int {
	largest := -1
	for _, c := range candidates {
		largest = max(largest, c.Multiprocessors)
	}
	if largest < 0 || largest > enoughMultiprocessors {
		return enoughMultiprocessors
	}
	return largest
}

// String describes the candidate as TensorFlow's log does: "device: 0, name: NVIDIA H200, pci bus id: 0000:17:00.0,
// compute capability: 9.0".
func (c Candidate) String() string {
	return fmt.Sprintf("device: %d, name: %s, pci bus id: %s, compute capability: %d.%d",
		c.Ordinal, c.Name, c.PCIBusID, c.ComputeMajor, c.ComputeMinor)
}
