// SPDX-License-Identifier: Apache-2.0

package gpu

// ManagedAllocator allocates unified memory, which CUDA calls managed memory: it migrates between device and host
// memory as it is used; facts 36 to 39. It works on devices with Device.Managed.
type ManagedAllocator interface {
	// MemAllocManaged allocates managed memory that any stream on any device can access. MemFree frees it.
	MemAllocManaged(ordinal int, bytes uint64) (addr uint64, err error)
}
