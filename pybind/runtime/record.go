package runtime

import (
	"gpuconf/gocore/bfc"
	"gpuconf/gocore/status"
	"gpuconf/gocore/trace"
)

// StartRecording begins to record what is done to the memory of all logical GPUs, of those that are listed later too, and
// keeps the newest so many events of each.
func (r *Runtime) StartRecording(capacity int) error {
	if err := Alive(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recorder != nil {
		return status.Errorf(status.FailedPrecondition, "a recording is running already; stop it first")
	}
	recorder, err := trace.NewRecorder(capacity)
	if err != nil {
		return err
	}
	if m := r.manager.Load(); m != nil {
		if err := m.Record(recorder); err != nil {
			return err
		}
	}
	r.recorder = recorder
	return nil
}

// CountRecorded tells how many events the recording has seen so far, and how many of them had to make room.
func (r *Runtime) CountRecorded() (all, lost uint64, err error) {
	if err := Alive(); err != nil {
		return 0, 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recorder == nil {
		return 0, 0, errNoRecording()
	}
	all, lost = r.recorder.Count()
	return all, lost, nil
}

// StopRecording ends the recording and gives what it has, with a picture of each pool as it is now, by number.
func (r *Runtime) StopRecording() (recording trace.Recording, pools map[int]bfc.MemoryMap, err error) {
	if err := Alive(); err != nil {
		return trace.Recording{}, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recorder == nil {
		return trace.Recording{}, nil, errNoRecording()
	}
	recorder := r.recorder
	r.recorder = nil
	var live map[int][]trace.Block
	if m := r.manager.Load(); m != nil {
		live, pools = m.StopRecording()
	}
	recording, err = recorder.Stop(live)
	return recording, pools, err
}

func errNoRecording() error {
	return status.Errorf(status.FailedPrecondition, "no recording is running")
}
