package devmgr

import (
	"fmt"

	"gpuconf/gocore/bfc"
	"gpuconf/gocore/config"
	"gpuconf/gocore/trace"
)

// Record begins to record what is done to the memory of all logical GPUs, those of later layouts too. There is one
// recorder at a time; a new one replaces it, also when it fails.
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

// StopRecording ends it and tells, by logical GPU, what is live now and how each pool looks, as of the last thing that is recorded of it.
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
				live = append(live, trace.Block{Addr: c.Addr, Bytes: c.Requested})
			}
		}
	}
	return live
}

// recordPools records every pool, or none of them.
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

// recordNewLocked lets the pools of a layout be recorded where a recording runs.
func (m *Manager) recordNewLocked(pools []*pool) {
	if m.recorder == nil {
		return
	}
	if err := recordPools(m.recorder, pools); err != nil {
		m.notice(config.Notice{Level: "warning", Text: fmt.Sprintf("recording stopped: %v", err)})
	}
}
