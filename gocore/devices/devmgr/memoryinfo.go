// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/pool/figures"
)

// ResolveGPU finds the logical GPU that a device string names, parsed as by get_memory_info. It returns TensorFlow's
// errors for a string that is invalid or matches no device or several, and InvalidArgument for a CPU, which has no
// pool.
func (m *Manager) ResolveGPU(text string) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	number, name, err := m.resolveLocked(text)
	if err == nil && number < 0 {
		err = status.Errorf(status.InvalidArgument, "%s has no memory pool: only GPUs have one. Pass a GPU, such as "+
			"\"GPU:0\"", name)
	}
	return number, err
}

// resolveLocked returns the number of a logical GPU, or -1 for another device, and its name.
func (m *Manager) resolveLocked(text string) (number int, name string, err error) {
	if err := m.readyLocked(); err != nil {
		return -1, "", err
	}
	i, err := devname.MatchMemoryDevice(m.names, text)
	if err != nil && len(m.gpus) == 0 && strings.Contains(text, "GPU") {
		return -1, "", status.Errorf(status.CodeOf(err), "%w: %s", err, m.noGPULocked())
	}
	if err != nil {
		return -1, "", err
	}
	return m.logical[i].gpu, m.logical[i].Name, nil
}

// MemoryInfo returns the bytes in use on a device and their peak.
func (m *Manager) MemoryInfo(text string) (current, peak uint64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolOfLocked(text)
	if err != nil {
		return 0, 0, err
	}
	current, peak = p.bfc.BytesInUse()
	return current, peak, nil
}

// MemoryStats are the statistics of a pool. Names are those of TensorFlow's AllocatorStats where it has them.
type MemoryStats struct {
	bfc.Stats
	// Unified memory: by how much bytes_in_use of all pools on the GPU exceeds the GPU's memory.
	OversubscribedBytes uint64 `py:"oversubscribed_bytes"`
	gpu.Budget                 // the job's budget on the GPU; zero if it has none
}

// MemoryTotals are the counters of a pool that PyTorch's statistics need besides MemoryStats.
type MemoryTotals struct {
	bfc.Totals
	OOMs uint64 `py:"ooms"` // requests that failed for lack of memory
}

// MemoryStats returns the statistics of a device's pool.
func (m *Manager) MemoryStats(text string) (MemoryStats, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolOfLocked(text)
	if err != nil {
		return MemoryStats{}, err
	}
	budget, _ := m.budget(p)
	return MemoryStats{p.bfc.Stats(), m.oversubscribedLocked(p), budget}, nil
}

// MemoryTotals returns the counters of a logical GPU's pool.
func (m *Manager) MemoryTotals(number int) (totals MemoryTotals, err error) {
	err = m.onPool(number, func(p *pool) { totals = MemoryTotals{p.bfc.Totals(), p.ooms.Load()} })
	return totals, err
}

// poolOfLocked returns a device's pool, after reclaiming the memory of destroyed graphs.
func (m *Manager) poolOfLocked(text string) (*pool, error) {
	number, _, err := m.resolveLocked(text)
	if err != nil {
		return nil, err
	}
	if number < 0 {
		return nil, status.Errorf(status.InvalidArgument, "Allocator stats not available for device '%s': only GPUs "+
			"have a memory pool. Pass a GPU, such as \"GPU:0\"", text)
	}
	p := m.gpus[number]
	p.captures.reclaim(p.bfc)
	return p, nil
}

// ResetMemoryStats resets the peak to the current use.
func (m *Manager) ResetMemoryStats(text string) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	number, _, err := m.resolveLocked(text)
	if err != nil {
		return err
	}
	if number < 0 {
		return status.Errorf(status.InvalidArgument, "Cannot reset memory stats for device '%s'", text)
	}
	m.gpus[number].bfc.ClearStats()
	return nil
}

// MemoryMap is a map of a device's pool.
type MemoryMap struct {
	bfc.MemoryMap
	Name                string // the short one, "GPU:0"
	LimitBytes          uint64 // the limit of the pool
	OversubscribedBytes uint64 // as in MemoryStats
}

// MemoryMap returns the map of a device's pool.
func (m *Manager) MemoryMap(text string) (drawn MemoryMap, err error) {
	number, err := m.ResolveGPU(text)
	if err != nil {
		return drawn, err
	}
	err = m.onPool(number, func(p *pool) {
		drawn = MemoryMap{p.bfc.MemoryMap(), shortName(number), p.limitBytes, m.oversubscribedLocked(p)}
	})
	return drawn, err
}

// Usage returns the memory in use on a device, by holder, and the device's short name.
func (m *Manager) Usage(text string) (usage bfc.Usage, name string, err error) {
	number, err := m.ResolveGPU(text)
	if err != nil {
		return usage, "", err
	}
	err = m.onPool(number, func(p *pool) { usage, name = p.bfc.Usage(), shortName(number) })
	return usage, name, err
}

// StartPeak starts a measurement of a logical GPU's peaks and returns what is in use now.
func (m *Manager) StartPeak(number int) (id bfc.PeakID, before bfc.Usage, err error) {
	err = m.onPool(number, func(p *pool) { id, before = p.bfc.StartPeak() })
	return id, before, err
}

// StopPeak ends a measurement and returns what is in use now, with the peaks since it started.
func (m *Manager) StopPeak(number int, id bfc.PeakID) (after bfc.Usage, err error) {
	running := false
	err = m.onPool(number, func(p *pool) { after, running = p.bfc.StopPeak(id) })
	if err == nil && !running {
		err = status.Errorf(status.InvalidArgument, "measurement %d on %s is not running", id, shortName(number))
	}
	return after, err
}

// Publisher is where other processes read the figures of this process's pools.
type Publisher interface {
	// SetPools returns the place for each pool's figures, nil if there is no more room, and ends the earlier ones.
	SetPools(pools []figures.Place) ([]*figures.Pool, error)
}

// Publish publishes the figures of all logical GPUs, including those of later layouts; nil ends it.
func (m *Manager) Publish(to Publisher) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	m.publisher = to
	return m.publishLocked(m.gpus)
}

// publishNewLocked adds the pools of a new layout.
func (m *Manager) publishNewLocked(pools []*pool) {
	if err := m.publishLocked(pools); err != nil {
		m.noticef("warning", "other processes do not see this process's use of GPUs: %v", err)
	}
}

func (m *Manager) publishLocked(pools []*pool) error {
	for _, p := range pools {
		p.bfc.Publish(nil) // SetPools may reuse the earlier places
	}
	if m.publisher == nil {
		return nil
	}
	named := make([]figures.Place, len(pools))
	for i, p := range pools {
		named[i] = figures.Place{UUID: p.device.UUID, Number: p.number}
	}
	places, err := m.publisher.SetPools(named)
	if err != nil {
		return err
	}
	for i, p := range pools {
		p.bfc.Publish(places[i])
	}
	return nil
}

// Record starts recording the memory events of all logical GPUs, including those of later layouts. There is one
// recorder at a time: a new one replaces it, even if Record fails.
func (m *Manager) Record(r *trace.Recorder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	m.recorder = nil
	if err := recordPools(r, m.gpus); err != nil {
		return err
	}
	m.recorder = r
	return nil
}

// StopRecording stops recording and returns, by logical GPU, the live blocks and the pool's map as of the last recorded
// event.
func (m *Manager) StopRecording() (live map[int][]trace.Block, pools map[int]bfc.MemoryMap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recorder = nil
	live, pools = map[int][]trace.Block{}, map[int]bfc.MemoryMap{}
	for _, p := range m.gpus {
		pools[p.number] = p.bfc.StopRecording()
		live[p.number] = liveBlocks(pools[p.number])
	}
	return live, pools
}

func liveBlocks(picture bfc.MemoryMap) (live []trace.Block) {
	for _, region := range picture.Regions {
		for _, c := range region.Chunks {
			if !c.Free {
				live = append(live, trace.Block{Addr: c.Addr, Bytes: c.Requested, Holder: c.Holder, Site: c.Site})
			}
		}
	}
	return live
}

// recordPools records all pools, or none if one fails.
func recordPools(r *trace.Recorder, pools []*pool) error {
	for _, p := range pools {
		if err := p.bfc.Record(r, p.number); err != nil {
			for _, p := range pools {
				p.bfc.StopRecording()
			}
			return err
		}
	}
	return nil
}

// recordNewLocked adds the pools of a new layout to a running recording.
func (m *Manager) recordNewLocked(pools []*pool) {
	if m.recorder == nil {
		return
	}
	if err := recordPools(m.recorder, pools); err != nil {
		m.noticef("warning", "recording stopped: %v", err)
	}
}
