package bfc_test

import (
	"maps"
	"slices"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/chunks"
)

// naive is best fit with coalescing, written in the simplest way: regions are sorted slices of chunks, and every search
// is linear. It is the oracle of the random tests.
//
// Under the exact rule an allocator may choose among equal chunks; naive checks its choice and follows it.
type naive struct {
	sub     bfc.SubAllocator
	rule    bfc.SplitRule
	collect bool
	regions []bfc.RegionMap
	stats   bfc.Stats
	lastID  uint64
	holders map[holder.ID]bfc.UsageRow // all that ever had a block
}

func newNaive(sub bfc.SubAllocator, opts bfc.Options) *naive {
	return &naive{sub: sub, rule: opts.Split, collect: opts.GarbageCollect,
		stats:   bfc.Stats{BytesLimit: sub.LimitBytes()},
		holders: map[holder.ID]bfc.UsageRow{}}
}

// allocate returns the block; chosen is the address that the allocator under test returned for the same request. ok is
// false if there is no memory; a block at address 0 means that chosen was not a legal choice.
func (n *naive) allocate(bytes, chosen uint64, by holder.ID) (block bfc.Block, ok bool) {
	if bytes == 0 {
		return bfc.Block{}, true
	}
	rounded := (bytes + 255) / 256 * 256
	if rounded < bytes {
		return bfc.Block{}, false
	}
	candidates := n.bestFits(rounded)
	if len(candidates) == 0 {
		if !n.extend(rounded) && !(n.collect && n.giveBack(rounded) && n.extend(rounded)) {
			return bfc.Block{}, false
		}
		candidates = n.bestFits(rounded)
	}
	addr := candidates[0]
	if !n.rule.TensorFlow && len(candidates) > 1 {
		if !slices.Contains(candidates, chosen) {
			return bfc.Block{}, true
		}
		addr = chosen
	}
	return n.take(addr, bytes, rounded, by), true
}

// bestFits returns the addresses of all free chunks of the best size, ascending.
func (n *naive) bestFits(rounded uint64) (addrs []uint64) {
	var best uint64
	for _, r := range n.regions {
		for _, c := range r.Chunks {
			switch {
			case !c.Free || c.Bytes < rounded:
			case best == 0 || c.Bytes < best:
				best, addrs = c.Bytes, []uint64{c.Addr}
			case c.Bytes == best:
				addrs = append(addrs, c.Addr)
			}
		}
	}
	return addrs
}

func (n *naive) splits(have, want uint64) bool {
	if !n.rule.TensorFlow {
		return have > want
	}
	slack := uint64(128 << 20)
	if n.rule.FragmentationFraction > 0 {
		slack = min(uint64(n.rule.FragmentationFraction*float64(n.stats.BytesLimit)), chunks.MostSlack)
	}
	return have > want && (have-want >= want || have-want >= slack)
}

func (n *naive) take(addr, bytes, rounded uint64, by holder.ID) bfc.Block {
	chunks, at := n.chunkAt(addr)
	c := (*chunks)[at]
	if n.splits(c.Bytes, rounded) {
		rest := bfc.ChunkMap{Addr: addr + rounded, Bytes: c.Bytes - rounded, Free: true}
		*chunks = slices.Insert(*chunks, at+1, rest)
		c.Bytes = rounded
	}
	n.lastID++
	c.Free, c.Requested, c.ID, c.Holder = false, bytes, n.lastID, by
	(*chunks)[at] = c
	n.stats.NumAllocs++
	n.stats.LargestAllocSize = max(n.stats.LargestAllocSize, c.Bytes)
	n.count()
	return bfc.Block{Addr: c.Addr, Bytes: c.Bytes, ID: c.ID}
}

func (n *naive) chunkAt(addr uint64) (chunks *[]bfc.ChunkMap, at int) {
	for i := range n.regions {
		r := &n.regions[i]
		if at = slices.IndexFunc(r.Chunks, func(c bfc.ChunkMap) bool { return c.Addr == addr }); at >= 0 {
			return &r.Chunks, at
		}
	}
	return nil, -1
}

// free returns whether there was such a block.
func (n *naive) free(addr uint64) bool {
	chunks, at := n.chunkAt(addr)
	if at < 0 || (*chunks)[at].Free {
		return addr == 0
	}
	c := &(*chunks)[at]
	c.Free, c.Requested, c.ID, c.Holder = true, 0, 0, 0
	n.join(chunks, at)
	n.join(chunks, at-1)
	n.count()
	return true
}

// join merges chunks at and at+1 if both exist and are free.
func (n *naive) join(chunks *[]bfc.ChunkMap, at int) {
	s := *chunks
	if at < 0 || at+1 >= len(s) || !s[at].Free || !s[at+1].Free {
		return
	}
	s[at].Bytes += s[at+1].Bytes
	*chunks = slices.Delete(s, at+1, at+2)
}

func (n *naive) extend(rounded uint64) bool {
	addr, bytes, err := n.sub.Extend(rounded)
	if err != nil {
		return false
	}
	n.regions = append(n.regions, bfc.RegionMap{Addr: addr, Bytes: bytes,
		Chunks: []bfc.ChunkMap{{Addr: addr, Bytes: bytes, Free: true}}})
	slices.SortFunc(n.regions, func(x, y bfc.RegionMap) int {
		if x.Addr < y.Addr {
			return -1
		}
		return 1
	})
	n.count()
	return true
}

func idle(r bfc.RegionMap) bool { return len(r.Chunks) == 1 && r.Chunks[0].Free }

func (n *naive) giveBack(rounded uint64) bool {
	var idleBytes uint64
	var kept, gone []bfc.RegionMap
	for _, r := range n.regions {
		if idle(r) {
			idleBytes += r.Bytes
			gone = append(gone, r)
		} else {
			kept = append(kept, r)
		}
	}
	if idleBytes == 0 || rounded > n.sub.AvailableBytes()+idleBytes {
		return false
	}
	n.regions = kept
	for _, r := range gone {
		_ = n.sub.Release(r.Addr, r.Bytes)
	}
	n.count()
	return true
}

// count computes the accounting anew from the chunks.
func (n *naive) count() {
	s := &n.stats
	s.BytesInUse, s.RequestedBytesInUse, s.LiveBlocks, s.BytesReserved, s.LargestFreeBlockBytes = 0, 0, 0, 0, 0
	for by, h := range n.holders {
		h.Bytes, h.Blocks = 0, 0
		n.holders[by] = h
	}
	for _, r := range n.regions {
		s.BytesReserved += r.Bytes
		for _, c := range r.Chunks {
			if c.Free {
				s.LargestFreeBlockBytes = max(s.LargestFreeBlockBytes, c.Bytes)
				continue
			}
			s.BytesInUse += c.Bytes
			s.RequestedBytesInUse += c.Requested
			s.LiveBlocks++
			h := n.holders[c.Holder]
			n.holders[c.Holder] = bfc.UsageRow{Library: c.Holder.Library(), Tag: c.Holder.Tag(),
				Bytes: h.Bytes + c.Bytes, PeakBytes: h.PeakBytes,
				Blocks: h.Blocks + 1}
		}
	}
	for by, h := range n.holders {
		h.PeakBytes = max(h.PeakBytes, h.Bytes)
		n.holders[by] = h
	}
	s.PeakBytesInUse = max(s.PeakBytesInUse, s.BytesInUse)
	s.PeakBytesReserved = max(s.PeakBytesReserved, s.BytesReserved)
}

func (n *naive) clearStats() {
	n.stats.NumAllocs, n.stats.LargestAllocSize, n.stats.PeakBytesInUse = 0, 0, n.stats.BytesInUse
	for by, h := range n.holders {
		h.PeakBytes = h.Bytes
		n.holders[by] = h
	}
}

// usage is what the allocator must return, with the rows sorted by holder.
func (n *naive) usage() bfc.Usage {
	u := bfc.Usage{Bytes: n.stats.BytesInUse, PeakBytes: n.stats.PeakBytesInUse, Blocks: n.stats.LiveBlocks}
	for _, by := range slices.Sorted(maps.Keys(n.holders)) {
		if n.holders[by].PeakBytes > 0 {
			u.Rows = append(u.Rows, n.holders[by])
		}
	}
	return u
}

func (n *naive) memoryMap() bfc.MemoryMap {
	m := bfc.MemoryMap{Regions: []bfc.RegionMap{}}
	for _, r := range n.regions {
		r.Chunks = slices.Clone(r.Chunks)
		m.Regions = append(m.Regions, r)
	}
	return m
}
