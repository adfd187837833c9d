package devmgr

import (
	"fmt"

	"gpuconf/gocore/bfc"
	"gpuconf/gocore/config"
	"gpuconf/gocore/gpu"
	"gpuconf/gocore/suballoc"
	"gpuconf/gocore/trace"
)

// Record begins to record what is done to the memory of all logical GPUs, those of later plans too. There is one
// recorder at a time; a new one replaces it.
func (m *Manager) Record(r *trace.Recorder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	if err := recordPools(r, m.gpus); err != nil {
		return err
	}
	m.recorder = r
	return nil
}

// StopRecording ends it and tells, by logical GPU, what is live now and how each pool looks.
func (m *Manager) StopRecording() (live map[int][]trace.Block, pools map[int]bfc.MemoryMap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recorder = nil
	live, pools = map[int][]trace.Block{}, map[int]bfc.MemoryMap{}
	for _, p := range m.gpus {
		pools[p.number] = p.stopRecording()
		live[p.number] = liveBlocks(pools[p.number])
	}
	return live, pools
}

// stopRecording pictures the pool as of the last thing that is recorded of it: what others do meanwhile waits for the lock.
func (p *pool) stopRecording() bfc.MemoryMap {
	if ring := p.ring.Load(); ring != nil {
		ring.Lock()
		defer ring.Unlock()
		defer p.ring.Store(nil)
	}
	return p.bfc.MemoryMap()
}

func liveBlocks(picture bfc.MemoryMap) (live []trace.Block) {
	for _, region := range picture.Regions {
		for _, c := range region.Chunks {
			if !c.Free {
				live = append(live, trace.Block{Addr: c.Addr, Bytes: c.Requested})
			}
		}
	}
	return live
}

// recordPools gives every pool its ring, or none of them.
func recordPools(r *trace.Recorder, pools []*pool) error {
	rings := make([]*trace.Ring, len(pools))
	for i, p := range pools {
		var err error
		if rings[i], err = r.Ring(p.number); err != nil {
			return err
		}
	}
	for i, p := range pools {
		p.ring.Store(rings[i])
	}
	return nil
}

// allocateRecorded takes a block of the pool and records it. Until that is done nobody else who records changes the pool's books.
func (p *pool) allocateRecorded(ring *trace.Ring, number bfc.Stream, stream gpu.Stream, bytes uint64) (bfc.Block, error) {
	ring.Lock()
	defer ring.Unlock()
	block, err := p.bfc.AllocateOn(number, bytes)
	switch {
	case err == nil:
		ring.Append(trace.Allocate, block.Addr, bytes, uint64(stream))
	case !isShut(err):
		ring.Append(trace.AllocateFailure, 0, bytes, uint64(stream))
	}
	return block, err
}

// free runs do, which frees a block, and records it.
func (p *pool) free(addr uint64, stream gpu.Stream, do func() error) error {
	ring := p.ring.Load()
	if ring == nil {
		return do()
	}
	ring.Lock()
	defer ring.Unlock()
	_, bytes, _ := p.bfc.Size(addr) // while it lives
	if err := do(); err != nil {
		return err
	}
	ring.Append(trace.Free, addr, bytes, uint64(stream))
	return nil
}

// trim is bfc's, alone with the pool's record.
func (p *pool) trim() (releasedBytes uint64, err error) {
	if ring := p.ring.Load(); ring != nil {
		ring.Lock()
		defer ring.Unlock()
	}
	return p.bfc.Trim()
}

// segment records that the pool has taken memory from its GPU, or given some back. It is called by bfc, with bfc's lock held.
func (p *pool) segment(action trace.Action, addr, bytes uint64) {
	if ring := p.ring.Load(); ring != nil && bytes > 0 {
		segments := ring.Segments()
		segments.Lock()
		defer segments.Unlock()
		segments.Append(action, addr, bytes, 0)
	}
}

// recordedRegions and recordedVirtual tell the pool's record where bfc's memory comes from and goes to.
type recordedRegions struct {
	*suballoc.Regions
	pool *pool
}

type recordedVirtual struct {
	*suballoc.Virtual
	pool *pool
}

var (
	_ bfc.SubAllocator = recordedRegions{}
	_ bfc.Mapper       = recordedVirtual{}
)

func (r recordedRegions) Extend(atLeast uint64) (addr, bytes uint64, err error) {
	if addr, bytes, err = r.Regions.Extend(atLeast); err == nil {
		r.pool.segment(trace.SegmentAlloc, addr, bytes)
	}
	return addr, bytes, err
}

func (r recordedRegions) Release(addr, bytes uint64) error {
	r.pool.segment(trace.SegmentFree, addr, bytes)
	return r.Regions.Release(addr, bytes)
}

func (v recordedVirtual) Extend(atLeast uint64) (addr, bytes uint64, err error) {
	if addr, bytes, err = v.Virtual.Extend(atLeast); err == nil {
		v.pool.segment(trace.SegmentAlloc, addr, bytes)
	}
	return addr, bytes, err
}

func (v recordedVirtual) Map(addr, atLeast, atMost uint64) (bytes uint64, err error) {
	if bytes, err = v.Virtual.Map(addr, atLeast, atMost); err == nil {
		v.pool.segment(trace.SegmentMap, addr, bytes)
	}
	return bytes, err
}

func (v recordedVirtual) Unmap(addr, bytes uint64) (from, to uint64, err error) {
	from, to, err = v.Virtual.Unmap(addr, bytes)
	v.pool.segment(trace.SegmentUnmap, from, to-from)
	return from, to, err
}

// Release gives a region back as one: the part of the range that it lies in, or what Extend gave.
func (v recordedVirtual) Release(addr, bytes uint64) error {
	action := trace.SegmentFree
	if start, length, _ := v.Range(); start <= addr && addr-start < length {
		action = trace.SegmentUnmap
	}
	v.pool.segment(action, addr, bytes)
	return v.Virtual.Release(addr, bytes)
}

// recordNewLocked lets the pools of a plan be recorded where a recording runs.
func (m *Manager) recordNewLocked(pools []*pool) {
	if m.recorder == nil {
		return
	}
	if err := recordPools(m.recorder, pools); err != nil {
		m.notice(config.Notice{Level: "warning", Text: fmt.Sprintf("what is done from here on is not recorded: %v", err)})
	}
}
