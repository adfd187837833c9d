package process

import (
	"context"

	"gpuconf/gocore/bfc"
	"gpuconf/gocore/status"
	"gpuconf/gocore/trace"
)

// recording is one that Python has a handle of. It ends when Python stops it, when the devices are given up, or when the handle is dropped.
// What it has seen stays until then.
type recording struct {
	recorder *trace.Recorder
	pools    map[int]bfc.MemoryMap // guarded by State.mu; as they were at its end
}

// StartRecording begins to record what is done to the memory of all logical GPUs, of those that are listed later too, and
// keeps the newest so many events of each. It gives the recording's number.
func (p *State) StartRecording(capacity int) (id int64, err error) {
	if err := Alive(); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return 0, status.Errorf(status.FailedPrecondition, "a recording is running already; stop it first")
	}
	recorder, err := trace.NewRecorder(capacity)
	if err != nil {
		return 0, err
	}
	if m := p.manager.Load(); m != nil {
		if err := m.Record(recorder); err != nil {
			return 0, err
		}
	}
	p.running = &recording{recorder: recorder}
	return p.recordings.put(p.running), nil
}

// CountRecorded tells how many events a recording has seen so far, how many of them had to make room, and whether it runs.
func (p *State) CountRecorded(id int64) (all, lost uint64, running bool, err error) {
	if err := Alive(); err != nil {
		return 0, 0, false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one, err := p.recordings.get(id, "recording")
	if err != nil {
		return 0, 0, false, err
	}
	all, lost = one.recorder.Count()
	return all, lost, one == p.running, nil
}

// StopRecording ends a recording. One that has ended is left alone.
func (p *State) StopRecording(id int64) error {
	if err := Alive(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one, err := p.recordings.get(id, "recording")
	if err == nil && one == p.running {
		p.endRecordingLocked()
	}
	return err
}

// endRecordingLocked ends the recording that runs, if one does.
func (p *State) endRecordingLocked() {
	one := p.running
	if one == nil {
		return
	}
	var live map[int][]trace.Block
	if m := p.manager.Load(); m != nil {
		live, one.pools = m.StopRecording()
	}
	one.recorder.Stop(live)
	p.running = nil
}

// Recorded makes events of a recording that has ended, and gives a picture of each pool as it was then, by number.
func (p *State) Recorded(ctx context.Context, id int64) (events trace.Recording, pools map[int]bfc.MemoryMap, err error) {
	p.mu.Lock()
	one, err := p.recordings.get(id, "recording")
	if err == nil && one == p.running {
		err = status.Errorf(status.FailedPrecondition, "the recording is running; stop it first")
	}
	if err != nil {
		p.mu.Unlock()
		return trace.Recording{}, nil, err
	}
	recorder, pools := one.recorder, one.pools
	p.mu.Unlock()
	if events, err = recorder.Recording(ctx); err != nil {
		if _, dropped := p.recordings.get(id, "recording"); dropped != nil {
			err = dropped // by another thread, in between
		}
	}
	return events, pools, err
}

// DropRecording forgets a recording, and ends it if it runs. Its memory goes back as soon as nothing is made of it any more.
func (p *State) DropRecording(id int64) error {
	if err := Alive(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one, err := p.recordings.remove(id, "recording")
	if err != nil {
		return err
	}
	if one == p.running {
		p.endRecordingLocked()
	}
	go func() { _ = one.recorder.Close() }() // it waits for a Recorded; and a table that can't be unmapped stays
	return nil
}
