package pybind

import (
	"fmt"

	"gpuconf/gocore/bfc"
	"gpuconf/gocore/trace"
	"gpuconf/pybind/runtime"
)

// StartRecording begins to record what is done to the memory of all logical GPUs; the newest so many events of each are kept.
func StartRecording(events int64) (done bool, err error) {
	defer runtime.Gate(&err)
	return true, runtime.Shared().StartRecording(int(min(events, trace.MostEvents+1)))
}

// CountRecorded gives "events lost" of the recording that runs.
func CountRecorded() (counts string, err error) {
	defer runtime.Gate(&err)
	all, lost, err := runtime.Shared().CountRecorded()
	return fmt.Sprintf("%d %d", all, lost), err
}

// StopRecording ends the recording. It gives a line of JSON, {"lost": events, "pools": {number: regions as MemoryMap's}}, and the
// events as CSV.
func StopRecording() (recorded string, err error) {
	defer runtime.Gate(&err)
	recording, pools, err := runtime.Shared().StopRecording()
	if err != nil {
		return "", err
	}
	pictures := map[int]any{}
	for number, drawn := range pools {
		pictures[number] = regionsOf(drawn)
	}
	head, err := encode(map[string]any{"lost": recording.Lost, "pools": pictures})
	if err != nil {
		return "", err
	}
	return head + "\n" + trace.FormatCSV(recording.Events), nil
}

// ReadTrace reads the CSV of RMM, and ours, and gives it in our form.
func ReadTrace(text string) (canonical string, err error) {
	defer runtime.Gate(&err)
	if err := runtime.Alive(); err != nil {
		return "", err
	}
	events, err := trace.ParseCSV(text)
	if err != nil {
		return "", err
	}
	return trace.FormatCSV(events), nil
}

// regionsOf gives [[address, bytes, [[address, bytes, requested, in use], ...]], ...].
func regionsOf(drawn bfc.MemoryMap) [][3]any {
	regions := make([][3]any, len(drawn.Regions))
	for i, r := range drawn.Regions {
		chunks := make([][4]any, len(r.Chunks))
		for j, c := range r.Chunks {
			chunks[j] = [4]any{c.Addr, c.Bytes, c.Requested, !c.Free}
		}
		regions[i] = [3]any{r.Addr, r.Bytes, chunks}
	}
	return regions
}
