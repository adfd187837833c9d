// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"context"
	"fmt"

	"gpuconf/gocore/base/trace"
	"gpuconf/gocore/pool/bfc"
	"gpuconf/pybind/process"
	"gpuconf/pybind/wire"
)

// StartRecording starts recording memory events of all logical GPUs and keeps the newest events of each, up to the
// given number, with stacks if Python has prepared them. It returns the recording's number, which is valid until
// DropRecording.
func StartRecording(events int64, stacks bool) (id int64, err error) {
	defer process.Gate(&err)
	return process.Shared().StartRecording(int(min(events, trace.MostEvents+1)), stacks)
}

// CountRecorded returns "events lost running" of a recording; running is 0 or 1.
func CountRecorded(id int64) (counts string, err error) {
	defer process.Gate(&err)
	all, lost, running, err := process.Shared().CountRecorded(id)
	runs := 0
	if running {
		runs = 1
	}
	return fmt.Sprintf("%d %d %d", all, lost, runs), err
}

// StopRecording stops a recording if it is running. OpenRecorded returns its events.
func StopRecording(id int64) (done bool, err error) {
	defer process.Gate(&err)
	return true, process.Shared().StopRecording(id)
}

// OpenRecorded creates a job that returns the events of a stopped recording. The job's result is {"events": count,
// "lost": events, "pools": {number: regions as in wire.MemoryMap}, "names": as in namesOf}; its pages are the events.
func OpenRecorded(id int64) (job int64, err error) {
	defer process.Gate(&err)
	if err := process.Alive(); err != nil {
		return 0, err
	}
	return process.OpenJob(func(ctx context.Context, _ *process.Input) (process.Outcome, error) {
		recording, pools, err := process.Shared().Recorded(ctx, id)
		pictures := map[int]any{}
		for number, drawn := range pools {
			pictures[number] = wire.List{Message: regionsOf(drawn)}
		}
		head := map[string]any{"events": len(recording.Events), "lost": recording.Lost, "pools": pictures,
			"names": namesOf(recording.Names)}
		return process.Outcome{Head: head, Events: recording.Events, Large: isLarge(recording.Events)}, err
	}, func() {}), nil
}

// DropRecording removes a recording, and stops it if it is running.
func DropRecording(id int64) (done bool, err error) {
	defer process.Gate(&err)
	return true, process.Shared().DropRecording(id)
}

// regionsOf returns the regions of a pool. Free chunks have no library.
func regionsOf(drawn bfc.MemoryMap) []wire.Region {
	regions := make([]wire.Region, len(drawn.Regions))
	for i, r := range drawn.Regions {
		chunks := make([]wire.Chunk, len(r.Chunks))
		for j, c := range r.Chunks {
			chunks[j] = wire.Chunk{Address: c.Addr, Bytes: c.Bytes, Requested: c.Requested, InUse: !c.Free}
			if !c.Free {
				chunks[j].Library, chunks[j].Tag = c.Holder.Library().String(), c.Holder.Tag().String()
			}
		}
		regions[i] = wire.Region{Address: r.Addr, Bytes: r.Bytes, Chunks: chunks}
	}
	return regions
}

// namesOf returns {"holders": [[library, tag], ...], "frames": [[file, line, function], ...], "stacks": [[frame number,
// ...], ...]}.
func namesOf(names trace.Names) map[string]any {
	holders := make([][2]string, len(names.Holders))
	for i, h := range names.Holders {
		holders[i] = [2]string{h.Library, h.Tag}
	}
	frames, numbers := [][3]any{}, map[trace.Frame]int{}
	stacks := make([][]int, len(names.Stacks))
	for i, stack := range names.Stacks {
		stacks[i] = make([]int, len(stack))
		for j, f := range stack {
			number, ok := numbers[f]
			if !ok {
				number = len(frames)
				numbers[f], frames = number, append(frames, [3]any{f.File, f.Line, f.Function})
			}
			stacks[i][j] = number
		}
	}
	return map[string]any{"holders": holders, "frames": frames, "stacks": stacks}
}
