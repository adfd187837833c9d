// SPDX-License-Identifier: Apache-2.0

package devmgr

import "gpuconf/gocore/base/status"

// unifiedUpstream gives a pool access to unified memory, in regions: CUDA cannot map managed memory in granules.
type unifiedUpstream struct{ upstream }

// MemAlloc allocates a region of managed memory, which may exceed the GPU's, and records its owner. MemFree frees it
// like any other.
func (u unifiedUpstream) MemAlloc(bytes uint64) (uint64, error) {
	return u.owned(bytes, u.driver.MemAllocManaged)
}

// checkUnified fails for a GPU without managed memory, such as a vGPU: every allocation would fail there.
func (p *pool) checkUnified() error {
	if p.unified && !p.device.Managed {
		return status.Errorf(status.Unimplemented, "%s cannot use unified memory: %s (GPU %d) does not support "+
			"managed memory. Do not set use_unified_memory, and keep per_process_gpu_memory_fraction at 1 or below",
			shortName(p.number), p.device.Name, p.device.Ordinal)
	}
	return nil
}

// spills reports whether the pool's memory may exceed the GPU's.
func (p *pool) spills() bool { return p.unified && p.device.Oversubscribes }

// oversubscribedLocked is the number of bytes by which the blocks in use in all of this process's pools on the pool's
// GPU exceed that GPU's memory. At least that many bytes are not on the GPU. It is 0 for a pool without unified memory.
func (m *Manager) oversubscribedLocked(p *pool) uint64 {
	if !p.spills() {
		return 0
	}
	var inUse uint64
	for _, other := range m.gpus {
		if other.device.Ordinal == p.device.Ordinal {
			bytes, _ := other.bfc.BytesInUse()
			inUse += bytes
		}
	}
	return inUse - min(inUse, p.device.TotalBytes)
}

// IsUnified reports whether a logical GPU's memory is unified memory.
func (m *Manager) IsUnified(number int) (bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, err := m.poolLocked(number)
	return err == nil && p.unified, err
}
