// SPDX-License-Identifier: Apache-2.0

package wire

// UsageRow is the memory of one library under one tag.
type UsageRow struct {
	// "torch", "cupy", "numba", "gpuconf" for buffers and tensors, "c" for gpuconf_malloc.
	Library        string `py:"library"`
	Tag            string `py:"tag"`               // "" for untagged memory
	BytesInUse     uint64 `py:"bytes_in_use"`      // total size of the live blocks, each a multiple of 256
	PeakBytesInUse uint64 `py:"peak_bytes_in_use"` // the maximum of bytes_in_use since the last reset_memory_stats
	LiveBlocks     uint64 `py:"live_blocks"`       // allocations not yet freed
}

// Usage is the memory in use on one logical GPU, by library and tag. The rows add up to it, but for the peaks, which
// may have been reached at different times.
type Usage struct {
	BytesInUse     uint64     `py:"bytes_in_use"`      // as in MemoryStats
	PeakBytesInUse uint64     `py:"peak_bytes_in_use"` // as in MemoryStats, or of a measurement
	LiveBlocks     uint64     `py:"live_blocks"`       // allocations not yet freed
	Rows           []UsageRow `py:"rows"`              // one for each library and tag
}

// DeviceUsage is the memory in use on a device that a text names.
type DeviceUsage struct {
	Device string `py:"device"` // such as "GPU:0"
	Usage  Usage  `py:"usage"`  // what is in use
}

// PeakStart is the start of a measurement of the peak on one logical GPU.
type PeakStart struct {
	GPU    int64 `py:"gpu"`    // the GPU's number
	ID     int64 `py:"id"`     // identifies the measurement until it ends
	Before Usage `py:"before"` // what was in use
}
