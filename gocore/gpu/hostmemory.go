package gpu

// HostMemory is page-locked host memory that devices can reach. Bytes and Words are the same memory, good until
// MemFreeHost. A word that a stream writes is read with sync/atomic.
type HostMemory struct {
	Addr  uint64 // as devices and the driver know it
	Bytes []byte
	Words []uint64 // the whole words of Bytes
}

// HostAllocator gives page-locked host memory; fact 28.
type HostAllocator interface {
	// MemHostAlloc takes memory that every device can reach; it belongs to the context of the given one. MemFreeHost gives
	// it back.
	MemHostAlloc(ordinal int, bytes uint64) (HostMemory, error)
	MemFreeHost(ordinal int, addr uint64) error
}
