// SPDX-License-Identifier: Apache-2.0

package wire

// MemoryStats are the statistics of a pool. Names are those of TensorFlow's AllocatorStats where it has them.
type MemoryStats struct {
	NumAllocs           uint64 `py:"num_allocs"`             // allocations since the last reset_memory_stats
	LiveBlocks          uint64 `py:"live_blocks"`            // allocations not yet freed
	BytesInUse          uint64 `py:"bytes_in_use"`           // total size of the live blocks, each rounded up to a multiple of 256
	RequestedBytesInUse uint64 `py:"requested_bytes_in_use"` // total requested size of the live blocks
	PeakBytesInUse      uint64 `py:"peak_bytes_in_use"`      // the maximum of bytes_in_use since the last reset_memory_stats
	LargestAllocSize    uint64 `py:"largest_alloc_size"`     // the largest block since the last reset_memory_stats
	BytesLimit          uint64 `py:"bytes_limit"`            // the hard limit
	BytesReserved       uint64 `py:"bytes_reserved"`         // memory that the pool has reserved on the GPU
	PeakBytesReserved   uint64 `py:"peak_bytes_reserved"`    // the maximum of bytes_reserved
	// the largest contiguous free block in the reserved memory
	LargestFreeBlockBytes uint64 `py:"largest_free_block_bytes"`
	// Times that fragmented free memory was remapped to be contiguous for a request that no free block could serve.
	Stitches      uint64 `py:"stitches"`
	StitchedBytes uint64 `py:"stitched_bytes"` // bytes remapped by these
	CapturedBytes uint64 `py:"captured_bytes"` // freed memory that captured CUDA graphs keep until they are destroyed
	// Unified memory: by how much bytes_in_use of all pools on the GPU exceeds the GPU's memory.
	OversubscribedBytes uint64 `py:"oversubscribed_bytes"`
	// What the guard of `gpuconf run` lets the job's processes have of the GPU; 0 without the guard.
	BudgetLimitBytes uint64 `py:"budget_limit_bytes" default:"0"`
	// Of it, what gpuconf's pools have reserved, in all processes of the job.
	BudgetPoolBytes uint64 `py:"budget_pool_bytes" default:"0"`
	// Of it, what is allocated otherwise: by libraries past the pools, and by the job's other programs.
	BudgetOutsideBytes uint64 `py:"budget_outside_bytes" default:"0"`
	BudgetFreeBytes    uint64 `py:"budget_free_bytes" default:"0"` // what is left of it
}

// MemoryTotals are the counters of a pool that PyTorch's statistics need besides MemoryStats.
type MemoryTotals struct {
	Allocs                  uint64 `py:"allocs"`                     // allocations since the pool was made
	AllocatedBytes          uint64 `py:"allocated_bytes"`            // the sum of their sizes
	Regions                 uint64 `py:"regions"`                    // of reserved memory
	RecentPeakBytesReserved uint64 `py:"recent_peak_bytes_reserved"` // since the last reset_memory_stats
	OOMs                    uint64 `py:"ooms"`                       // requests that failed for lack of memory
}
