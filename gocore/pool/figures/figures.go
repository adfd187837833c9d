// SPDX-License-Identifier: Apache-2.0

// Package figures holds the live figures of one memory pool, as other processes read them.
package figures

// Libraries is the number of libraries that have a word of their own: one for each value of holder.Library.
const Libraries = 8

// Pool is what a pool has and uses, in bytes. The allocator writes it with its lock held; readers are other processes,
// which see whole words in any order. It is exact while the pool is idle.
//
// Each half is a cache line of most processors: an allocation writes the second one, and the first one only with a new
// peak.
type Pool struct {
	Limit     uint64 // the most that the pool may reserve
	Reserved  uint64 // what the pool has taken from the device, in use or not
	Peak      uint64 // the most that was in use since the statistics were cleared
	_         [5]uint64
	Libraries [Libraries]uint64 // in use, by holder.Library
}

// InUse returns the bytes in use. They have no word of their own, so that an allocation writes one word only.
func (p *Pool) InUse() (bytes uint64) {
	for _, of := range p.Libraries {
		bytes += of
	}
	return bytes
}

// Bytes is the size of a Pool in a shared file.
const Bytes = 8 * (8 + Libraries)

// Place says which pool it is.
type Place struct {
	UUID   string // of the card
	Number int    // N of GPU:N
}
