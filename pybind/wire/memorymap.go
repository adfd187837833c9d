// SPDX-License-Identifier: Apache-2.0

package wire

// Chunk is a chunk of a region: a block in use, or free memory.
type Chunk struct {
	Address   uint64 `py:"address"`            // of the first byte
	Bytes     uint64 `py:"nbytes"`             // its size
	Requested uint64 `py:"requested"`          // the requested size; 0 for free memory
	InUse     bool   `py:"in_use"`             // whether it is a block
	Library   string `py:"library" default:""` // as in UsageRow; "" for free memory
	Tag       string `py:"tag" default:""`     // "" for untagged and for free memory
}

// Region is a contiguous range that the pool has reserved on the GPU. Its chunks cover it, in order of address.
type Region struct {
	Address uint64  `py:"address"` // of the first byte
	Bytes   uint64  `py:"nbytes"`  // its size
	Chunks  []Chunk `py:"chunks"`  // in order of address
}

// MemoryMap is all regions of a pool, in order of address.
type MemoryMap struct {
	Device              string   `py:"device"`               // such as "GPU:0"
	BytesLimit          uint64   `py:"bytes_limit"`          // the pool's hard limit
	Regions             []Region `py:"regions"`              // in order of address
	OversubscribedBytes uint64   `py:"oversubscribed_bytes"` // as in MemoryStats
}
