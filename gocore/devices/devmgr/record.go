// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"fmt"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/gocore/tf/config"
)

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
		m.notice(config.Notice{Level: "warning", Text: fmt.Sprintf("recording stopped: %v", err)})
	}
}
