// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"strings"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/devname"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
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

// MemoryStats holds a pool's statistics, and figures of its GPU.
type MemoryStats struct {
	bfc.Stats
	// OversubscribedBytes is by how much the blocks in use in all of this process's pools on the GPU exceed the GPU's
	// memory. It is 0 for a pool without unified memory.
	OversubscribedBytes uint64
	Budget              gpu.Budget // the job's budget on the GPU; zero if it has none
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

// MemoryTotals returns the totals of a logical GPU's pool, and how many of its allocations ran out of memory.
func (m *Manager) MemoryTotals(number int) (totals bfc.Totals, ooms uint64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return bfc.Totals{}, 0, err
	}
	return p.bfc.Totals(), p.ooms.Load(), nil
}

// poolOfLocked returns a device's pool, after reclaiming the memory of destroyed graphs.
func (m *Manager) poolOfLocked(text string) (*pool, error) {
	number, _, err := m.resolveLocked(text)
	if err != nil {
		return nil, err
	}
	if number < 0 {
		return nil, status.Errorf(status.InvalidArgument, "Allocator stats not available for device '%s'", text)
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
func (m *Manager) MemoryMap(text string) (MemoryMap, error) {
	number, err := m.ResolveGPU(text)
	if err != nil {
		return MemoryMap{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return MemoryMap{}, err
	}
	return MemoryMap{p.bfc.MemoryMap(), shortName(number), p.limitBytes, m.oversubscribedLocked(p)}, nil
}

// Usage returns the memory in use on a device, by holder, and the device's short name.
func (m *Manager) Usage(text string) (bfc.Usage, string, error) {
	number, err := m.ResolveGPU(text)
	if err != nil {
		return bfc.Usage{}, "", err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return bfc.Usage{}, "", err
	}
	return p.bfc.Usage(), shortName(number), nil
}

// StartPeak starts a measurement of a logical GPU's peaks and returns what is in use now.
func (m *Manager) StartPeak(number int) (id bfc.PeakID, before bfc.Usage, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return 0, bfc.Usage{}, err
	}
	id, before = p.bfc.StartPeak()
	return id, before, nil
}

// StopPeak ends a measurement and returns what is in use now, with the peaks since it started.
func (m *Manager) StopPeak(number int, id bfc.PeakID) (after bfc.Usage, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	if err != nil {
		return bfc.Usage{}, err
	}
	after, ok := p.bfc.StopPeak(id)
	if !ok {
		return bfc.Usage{}, status.Errorf(status.InvalidArgument, "measurement %d on %s is not running", id,
			shortName(number))
	}
	return after, nil
}
