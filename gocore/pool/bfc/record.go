// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"cmp"
	"slices"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/offheap"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/pool/chunks"
)

// Record starts recording the allocator's operations as logical GPU number gpu of a recorder. It replaces a running
// recording.
//
// Entries are appended under the allocator's lock, together with the change that they describe, so they are in the
// order of the changes. Operations that are missing were done before the recording began or after it ended.
func (a *Allocator) Record(r *trace.Recorder, gpu int) error {
	ring, err := r.Ring(gpu, &a.mu) // without the lock: the recorder's is acquired first
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return a.errClosed()
	}
	if err := a.dropSitesLocked(); err != nil {
		return err
	}
	if ring.Sites() != nil {
		if a.sites, err = offheap.Map[uint32](chunks.TableName, len(a.chunks.Records)); err != nil {
			return err
		}
	}
	a.ring = ring
	return nil
}

// StopRecording stops recording and returns a map of the memory as of the last entry.
func (a *Allocator) StopRecording() MemoryMap {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ring = nil
	m := a.memoryMapLocked()
	_ = a.dropSitesLocked() // a table that cannot be unmapped is leaked
	return m
}

func (a *Allocator) dropSitesLocked() error {
	sites := a.sites
	a.sites = nil
	if sites == nil {
		return nil
	}
	return offheap.Unmap(sites)
}

// recordAllocationLocked records a new block and, if the recording has stacks, notes its site.
func (a *Allocator) recordAllocationLocked(i uint32, s Stream) {
	c := &a.chunks.Records[i]
	site := a.ring.Site()
	if a.sites != nil {
		a.sites[i] = site
	}
	a.ring.Append(trace.Allocate, c.Addr(), a.chunks.Requested(i), a.streams[s].handle, c.Holder(), site)
}

// siteLocked returns the site of a live block; 0 if it is unknown.
func (a *Allocator) siteLocked(i uint32) uint32 {
	if a.sites == nil {
		return 0
	}
	return a.sites[i]
}

// recordFreeLocked records that a block is about to be freed. If no stream is given, it records the block's own
// stream.
func (a *Allocator) recordFreeLocked(at int, s Stream) {
	i := a.index.At(at)
	switch {
	case s != noStream:
	case a.shared:
		s = a.tags[i].stream
	default:
		s = a.only
	}
	c := &a.chunks.Records[i]
	a.ring.Append(trace.Free, c.Addr(), a.chunks.Requested(i), a.streams[s].handle, c.Holder(), 0)
}

// failedLocked records that an allocation failed, and returns err.
func (a *Allocator) failedLocked(s Stream, bytes uint64, by holder.ID, err error) error {
	if a.ring != nil {
		var handle uint64
		if int(s) < len(a.streams) {
			handle = a.streams[s].handle
		}
		a.ring.Append(trace.AllocateFailure, 0, bytes, handle, by, a.ring.Site())
	}
	return err
}

// recordSegmentLocked records memory that the sub-allocator supplied, or that goes back to it. Spare memory counts as
// gone, although it is still mapped, because it is in no region.
func (a *Allocator) recordSegmentLocked(comes bool, addr, bytes uint64) {
	if a.ring == nil {
		return
	}
	action := trace.SegmentFree
	switch mapped := a.space.holds(addr); {
	case mapped && comes:
		action = trace.SegmentMap
	case mapped:
		action = trace.SegmentUnmap
	case comes:
		action = trace.SegmentAlloc
	}
	a.ring.Segments().Append(action, addr, bytes, 0, 0, 0)
}

// Find returns the live block that begins at addr, and its requested size.
func (a *Allocator) Find(addr uint64) (block Block, requestedBytes uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.index.Find(addr)
	if !ok {
		return Block{}, 0, false
	}
	i := a.index.At(at)
	c := &a.chunks.Records[i]
	return Block{Addr: addr, Bytes: c.Bytes(), ID: c.ID()}, a.chunks.Requested(i), true
}

// errNotLiveLocked describes an address that is not in the index. It walks the chunks of a region; only invalid calls
// pay for that.
func (a *Allocator) errNotLiveLocked(addr uint64) error {
	if a.closed {
		return a.errClosed()
	}
	c := a.chunkAroundLocked(addr)
	switch {
	case c == nil:
		return status.Errorf(status.InvalidArgument, "allocator %s: nothing was freed: it has no memory at %#x",
			a.name, addr)
	case c.Free() || c.Held():
		return status.Errorf(status.InvalidArgument,
			"allocator %s: nothing was freed: the memory at %#x is free; was it freed before?", a.name, addr)
	default:
		return status.Errorf(status.InvalidArgument,
			"allocator %s: nothing was freed: %#x is inside the block of %d bytes at %#x; free that address", a.name,
			addr, c.Bytes(), c.Addr())
	}
}

// chunkAroundLocked returns the chunk that contains addr, or nil.
func (a *Allocator) chunkAroundLocked(addr uint64) *chunks.Chunk {
	for _, r := range a.regions {
		if addr < r.addr || addr-r.addr >= r.bytes {
			continue
		}
		c := &a.chunks.Records[r.first]
		for addr-c.Addr() >= c.Bytes() {
			c = &a.chunks.Records[c.Next]
		}
		return c
	}
	return nil
}

func (a *Allocator) errOtherID(addr, now, id uint64) error {
	return status.Errorf(status.InvalidArgument,
		"allocator %s: nothing was freed: the block at %#x is allocation %d, and allocation %d is not live there",
		a.name, addr, now, id)
}

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
