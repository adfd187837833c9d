// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/pool/bfc"
)

// recording is a recording that Python has a handle to. It ends when Python stops it, when the devices are released, or
// when the handle is dropped. Its events stay until the handle is dropped.
type recording struct {
	recorder *trace.Recorder
	pools    map[int]bfc.MemoryMap // guarded by State.mu; as they were at its end
}

// StartRecording starts recording memory events of all logical GPUs, including those created later. It keeps the newest
// capacity events of each, with the Python calls that lead to them if stacks is set, and returns the recording's
// number.
func (p *State) StartRecording(capacity int, stacks bool) (id int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return 0, status.Errorf(status.FailedPrecondition, "a recording is running already; stop it first")
	}
	var sites *trace.Sites
	if stacks {
		sites = trace.NewSites(threads.Site)
	}
	recorder, err := trace.NewRecorder(capacity, sites)
	if err != nil {
		return 0, err
	}
	if m := p.manager.Load(); m != nil {
		if err := m.Record(recorder); err != nil {
			return 0, err
		}
	}
	p.running = &recording{recorder: recorder}
	p.sites.Store(sites)
	threads.Stacks(stacks)
	return p.recordings.put(p.running), nil
}

// CountRecorded returns how many events a recording has seen so far, how many of them were overwritten, and whether it
// is running.
func (p *State) CountRecorded(id int64) (all, lost uint64, running bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	recorded, err := p.recordings.get(id, "recording")
	if err != nil {
		return 0, 0, false, err
	}
	all, lost = recorded.recorder.Count()
	return all, lost, recorded == p.running, nil
}

// StopRecording stops a recording. It does nothing if the recording has ended.
func (p *State) StopRecording(id int64) error {
	recorded, err := p.recordings.get(id, "recording")
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if recorded == p.running {
		p.endRecordingLocked()
	}
	return nil
}

// endRecordingLocked stops the running recording, if there is one.
func (p *State) endRecordingLocked() {
	recorded := p.running
	if recorded == nil {
		return
	}
	var live map[int][]trace.Block
	if m := p.manager.Load(); m != nil {
		live, recorded.pools = m.StopRecording()
	}
	recorded.recorder.Stop(live)
	p.running = nil
	threads.Stacks(false)
	p.sites.Store(nil)
}

// AddStack adds a stack to the running recording, if it has stacks, and returns its number; see trace.Sites.Add.
func (p *State) AddStack(text string) uint32 {
	if sites := p.sites.Load(); sites != nil {
		return sites.Add(text)
	}
	return 0
}

// Recorded returns the events of a recording that has ended, and the layout of each pool at its end, by number.
func (p *State) Recorded(ctx context.Context, id int64) (
	events trace.Recording, pools map[int]bfc.MemoryMap, err error) {
	p.mu.Lock()
	recorded, err := p.recordings.get(id, "recording")
	if err == nil && recorded == p.running {
		err = status.Errorf(status.FailedPrecondition, "the recording is running; stop it first")
	}
	if err != nil {
		p.mu.Unlock()
		return trace.Recording{}, nil, err
	}
	recorder, pools := recorded.recorder, recorded.pools
	p.mu.Unlock()
	if events, err = recorder.Recording(ctx); err != nil {
		if _, dropped := p.recordings.get(id, "recording"); dropped != nil {
			err = dropped // by another thread, meanwhile
		}
	}
	return events, pools, err
}

// DropRecording removes a recording, and stops it if it is running. Its memory is freed once no call of Recorded uses
// it.
func (p *State) DropRecording(id int64) error {
	recorded, err := p.recordings.remove(id, "recording")
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if recorded == p.running {
		p.endRecordingLocked()
	}
	// Close waits for a Recorded in progress. A table that cannot be unmapped is leaked.
	go func() { _ = recorded.recorder.Close() }()
	return nil
}

// Threads is what C keeps for each thread, and what it reads without entering Go. Package cabi supplies it at start,
// because this package has no C.
type Threads struct {
	Tag    func() holder.Tag // of the calling thread
	Site   func() uint32     // of the calling thread's allocation, while stacks are on
	Stacks func(on bool)     // switches stacks on or off, for all threads

	Generation  func(uint32)           // stores State.Generation, for all threads
	CaptureInfo func(function uintptr) // stores gpu.CaptureInfo's function, 0 for none
	Idle        uintptr                // the function for cuda.TellIdle, 0 for none
	Stopped     func()                 // notes that a panic stopped the core, for all threads
}

var threads = Threads{Tag: func() holder.Tag { return 0 }, Site: func() uint32 { return 0 }, Stacks: func(bool) {},
	Generation: func(uint32) {}, CaptureInfo: func(uintptr) {}, Stopped: func() {}}

// UseThreads replaces what does nothing. It is called once, at start.
func UseThreads(t Threads) { threads = t }

// Holder returns who holds what gpuconf itself allocates for a call on this thread.
func Holder() holder.ID { return holder.Of(holder.Gpuconf, threads.Tag()) }
