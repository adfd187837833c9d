package gpu

// ManagedAllocator allocates unified memory, which CUDA calls managed: it lies in a device's memory or in the host's and moves between
// them as it is used; facts 36 to 39. It works on devices with Device.Managed.
type ManagedAllocator interface {
	// MemAllocManaged takes managed memory, accessible from any stream on any device. MemFree gives it back.
	MemAllocManaged(ordinal int, bytes uint64) (addr uint64, err error)
}
