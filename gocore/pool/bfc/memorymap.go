// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"cmp"
	"slices"

	"gpuconf/gocore/base/holder"
)

// MemoryMap is a snapshot of all regions and their chunks, in address order.
type MemoryMap struct {
	Regions []RegionMap // in the order of their addresses
}

// RegionMap is one region. Its chunks cover it without gaps.
type RegionMap struct {
	Addr   uint64     // the address of the first byte
	Bytes  uint64     // the size of the region
	Chunks []ChunkMap // in the order of their addresses
}

// ChunkMap is one chunk.
type ChunkMap struct {
	Addr      uint64    // the address of the first byte
	Bytes     uint64    // the size of the chunk
	Requested uint64    // the size that the caller requested; 0 if free
	Free      bool      // whether no live block is in it
	ID        uint64    // of the allocation; 0 if free
	Holder    holder.ID // who requested the block; the zero ID if free
	Site      uint32    // the call site of the allocation; 0 if free, or without a recording with stacks
	Pending   bool      // free, but queued work of some stream may still touch it
	Captured  bool      // pending, and kept for a captured graph
}

// MemoryMap returns a snapshot that shares no memory with the allocator. A stretch of spare memory appears as a region
// of one free chunk. After Close the snapshot is empty.
func (a *Allocator) MemoryMap() MemoryMap {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.memoryMapLocked()
	if a.spareBytesLocked() > 0 {
		a.mapper.EachSpare(func(addr, bytes uint64) {
			m.Regions = append(m.Regions, RegionMap{Addr: addr, Bytes: bytes,
				Chunks: []ChunkMap{{Addr: addr, Bytes: bytes, Free: true}}})
		})
		m.join()
	}
	return m
}

// join merges adjacent regions, and free chunks that meet at their borders.
func (m *MemoryMap) join() {
	slices.SortFunc(m.Regions, func(r, other RegionMap) int { return cmp.Compare(r.Addr, other.Addr) })
	joined := m.Regions[:0]
	for _, r := range m.Regions {
		if n := len(joined); n == 0 || joined[n-1].Addr+joined[n-1].Bytes != r.Addr {
			joined = append(joined, r)
			continue
		}
		below := &joined[len(joined)-1]
		below.Bytes += r.Bytes
		if last, first := &below.Chunks[len(below.Chunks)-1], r.Chunks[0]; last.Free && first.Free && !last.Pending &&
			!first.Pending {
			last.Bytes += first.Bytes
			r.Chunks = r.Chunks[1:]
		}
		below.Chunks = append(below.Chunks, r.Chunks...)
	}
	m.Regions = joined
}

func (a *Allocator) memoryMapLocked() MemoryMap {
	m := MemoryMap{Regions: make([]RegionMap, 0, len(a.regions))}
	for _, r := range a.regions {
		m.Regions = append(m.Regions, RegionMap{Addr: r.addr, Bytes: r.bytes, Chunks: a.chunkMapsLocked(r)})
	}
	return m
}

func (a *Allocator) chunkMapsLocked(r region) []ChunkMap {
	var maps []ChunkMap
	for i := r.first; i != r.fence; i = a.chunks.Records[i].Next {
		c := &a.chunks.Records[i]
		m := ChunkMap{Addr: c.Addr(), Bytes: c.Bytes(), Free: c.Free() || c.Held()}
		if m.Free {
			m.Pending = a.shared && (c.Held() || a.tags[i].stream != clean)
			m.Captured = a.capturedLocked(i)
		} else {
			m.Requested, m.ID, m.Holder, m.Site = a.chunks.Requested(i), c.ID(), c.Holder(), a.siteLocked(i)
		}
		maps = append(maps, m)
	}
	return maps
}
