// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"sort"
	"sync"
	"sync/atomic"
)

// owners finds the pool that an address belongs to, so that a free needs nothing but the pointer (invariant 2).
//
// Readers load a sorted slice and search it without a lock; a pool that gains or loses a region publishes a new slice.
// Regions change rarely, frees are frequent.
type owners struct {
	mu      sync.Mutex // serializes writers
	regions atomic.Pointer[[]ownedRegion]
}

// fewRegions is the number up to which a linear search is faster than a binary search.
const fewRegions = 8

type ownedRegion struct {
	start, end uint64 // [start, end)
	pool       *pool
}

// find returns the pool whose region contains addr, or nil.
func (o *owners) find(addr uint64) *pool {
	if r := o.region(addr); r != nil {
		return r.pool
	}
	return nil
}

// region returns the region that contains addr, or nil. The result is read-only.
func (o *owners) region(addr uint64) *ownedRegion {
	loaded := o.regions.Load()
	if loaded == nil {
		return nil
	}
	regions := *loaded
	i := 0
	if len(regions) > fewRegions {
		i = sort.Search(len(regions), func(i int) bool { return regions[i].end > addr })
	} else {
		for i < len(regions) && regions[i].end <= addr {
			i++
		}
	}
	if i == len(regions) || regions[i].start > addr {
		return nil
	}
	return &regions[i]
}

// count returns the number of regions.
func (o *owners) count() int {
	if loaded := o.regions.Load(); loaded != nil {
		return len(*loaded)
	}
	return 0
}

func (o *owners) add(start, bytes uint64, p *pool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := append(o.copyLocked(), ownedRegion{start, start + bytes, p})
	sort.Slice(next, func(i, j int) bool { return next[i].start < next[j].start })
	o.regions.Store(&next)
}

func (o *owners) remove(start uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := o.copyLocked()
	for i := range next {
		if next[i].start == start {
			next = append(next[:i], next[i+1:]...)
			break
		}
	}
	o.regions.Store(&next)
}

func (o *owners) copyLocked() []ownedRegion {
	loaded := o.regions.Load()
	if loaded == nil {
		return nil
	}
	return append([]ownedRegion(nil), *loaded...)
}
