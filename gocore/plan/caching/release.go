// SPDX-License-Identifier: Apache-2.0

package caching

// ReleaseCached releases every segment without allocated blocks, and the unused granules of expandable ones, as
// torch.cuda.empty_cache() does. Private pools keep theirs: PyTorch waits until the graphs that use them are gone.
func (a *Allocator) ReleaseCached() {
	for _, s := range a.order {
		if s.pool != (PoolID{}) {
			continue
		}
		for _, b := range s.free.all() {
			if b.segment.expandable {
				a.unmap(b)
			} else if b.whole() {
				a.release(b)
			}
		}
	}
}

// release releases a segment that is one free block.
func (a *Allocator) release(b *Block) {
	b.shelf.free.remove(b)
	a.device.MemFree(b.Addr, b.Bytes)
	a.reserved -= b.Bytes
	a.drop(b)
}

// drop forgets a segment that is one block.
func (a *Allocator) drop(b *Block) {
	delete(a.segments, b.segment)
	a.spare = append(a.spare, b)
}

// ReleaseOversize releases what an allocation that finds no memory releases first.
func (a *Allocator) ReleaseOversize(r Request) {
	rounded := a.settings.Round(r.Bytes)
	a.releaseOversize(a.shelf(shelfKey{r.Pool, rounded <= mostSmall, r.Stream}), rounded)
}

// releaseOversize releases cached blocks that may not be split: one that is large enough for the request, or as many of
// the largest as are together. It reports whether the request may fit now.
func (a *Allocator) releaseOversize(s *shelf, rounded uint64) bool {
	if a.settings.MaxSplitBytes == 0 {
		return false
	}
	target := max(rounded, a.settings.MaxSplitBytes)
	for b := range s.free.from(key{first: target}) {
		if b.segment.expandable {
			return false
		}
		a.release(b)
		return true
	}
	var released uint64
	for released < target {
		b := s.free.last()
		if b == nil || b.Bytes < a.settings.MaxSplitBytes || b.segment.expandable {
			break
		}
		released += b.Bytes
		a.release(b)
	}
	return released >= target
}

// collects reports whether cached blocks are released by age. That needs a limit.
func (a *Allocator) collects() bool { return a.limit > 0 && a.settings.GarbageThreshold > 0 }

// collectGarbage releases cached segments that have not been used for longest until the reserved memory is below the
// threshold.
func (a *Allocator) collectGarbage() {
	threshold := uint64(a.settings.GarbageThreshold * float64(a.limit))
	if a.reserved <= threshold {
		return
	}
	target := a.reserved - threshold
	var candidates []*Block
	var age uint64
	for _, s := range a.order {
		if s.pool != (PoolID{}) || s.small {
			continue
		}
		for _, b := range s.free.all() {
			if b.whole() {
				candidates = append(candidates, b)
				age += s.searches() - b.shelved
			}
		}
	}
	var collected uint64
	for collected < target && len(candidates) > 0 {
		mean := float64(age) / float64(len(candidates))
		var younger []*Block
		for _, b := range candidates {
			old := b.shelf.searches() - b.shelved
			if float64(old) < mean {
				younger = append(younger, b)
				continue
			}
			collected += b.Bytes
			age -= old
			a.release(b)
		}
		if len(younger) == len(candidates) {
			return
		}
		candidates = younger
	}
}
