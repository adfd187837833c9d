// SPDX-License-Identifier: Apache-2.0

package gpu

// MemoryKind says where a GPU's memory is. The zero value is a GPU's own memory.
type MemoryKind int

// The kinds.
const (
	Dedicated MemoryKind = iota // the GPU's own memory
	// Unified is the host's memory, which the GPU shares with programs on the CPU, as on GB10 and Jetson.
	Unified
	// Coherent is the GPU's own memory, which the CPU can also access, as on GH200. Its size does not include the CPU's
	// memory.
	Coherent
)

// String returns the kind as commands and documents name it.
func (k MemoryKind) String() string {
	return [...]string{Dedicated: "dedicated", Unified: "unified", Coherent: "coherent"}[k]
}
