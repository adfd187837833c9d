// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"errors"
	"fmt"

	"gpuconf/gocore/base/holder"
	"gpuconf/gocore/base/human"
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
	"gpuconf/gocore/pool/bfc"
)

// outOfMemoryLocked adds a report to the error of a failed allocation. The first sentence begins like TensorFlow's;
// figures and one next step follow. The text contains " out of memory", which other libraries look for.
func (m *Manager) outOfMemoryLocked(p *pool, bytes uint64, by holder.ID, err error) error {
	var oom *bfc.OutOfMemory
	if !errors.As(err, &oom) {
		return err
	}
	p.ooms.Add(1)
	budget, budgeted := m.budget(p)
	refused := budgeted && oom.Cause == bfc.DeviceFull && isOutOfMemory(oom.Err) && budget.FreeBytes < oom.Rounded
	reason := oom.Reason()
	if refused {
		reason = "the limit of the job is reached"
	}
	text := fmt.Sprintf("OOM when allocating %s on %s: out of memory, %s.\n  %s\n",
		human.Exact(bytes), shortName(p.number), reason, oom.Figures())
	for _, clause := range oom.HeldBy() {
		text += "  in use by " + clause + "\n"
	}
	if budgeted {
		text += m.describeBudget(p, budget)
	}
	text += "  on " + p.device.Name
	over := m.oversubscribedLocked(p)
	if total := p.device.TotalBytes; bytes > total || oom.Limit > total || over > 0 {
		text += ", which has " + human.Exact(total) + " in total"
	}
	if over > 0 {
		text += "; the memory in use exceeds that by " + human.Exact(over) + ", which is in host memory"
	}
	text += ". " + p.advice(oom, by.Library(), refused)
	if oom.Cause == bfc.DeviceFull {
		text += m.neighborsLocked(p)
	}
	full := oom.Cause == bfc.DeviceFull && isOutOfMemory(oom.Err)
	if m.processes != nil && (full || m.shared && oom.Cause != bfc.Injected) {
		text += m.processes(p.device)
	}
	return status.Errorf(status.ResourceExhausted, "%w", &reported{text, err})
}

// DescribeProcesses sets the function that describes, for a report, the other processes that use a GPU: sentences that
// begin with a space, or "". Reports of full GPUs have them; with shared, those of every limit: processes share
// simulated GPUs only by their limits. It must be called before the Manager is shared.
func (m *Manager) DescribeProcesses(describe func(gpu.Device) string, shared bool) {
	m.processes, m.shared = describe, shared
}

// reported is an out-of-memory error with the report in place of the allocator's text.
type reported struct {
	text  string
	cause error
}

func (r *reported) Error() string { return r.text }
func (r *reported) Unwrap() error { return r.cause }

// neighborsLocked describes what this process's other logical GPUs have reserved on the same physical GPU; "" for
// nothing.
func (m *Manager) neighborsLocked(p *pool) (text string) {
	for _, other := range m.gpus {
		if other == p || other.device.Ordinal != p.device.Ordinal {
			continue
		}
		if s := other.bfc.Stats(); s.BytesReserved > 0 {
			text += fmt.Sprintf(" %s has reserved %s of it and uses %s.", shortName(other.number),
				human.Exact(s.BytesReserved), human.Exact(s.BytesInUse))
		}
	}
	return text
}

// advice is the next step to take in the library that requested the memory. refused: the job's budget has less left
// than was requested.
func (p *pool) advice(oom *bfc.OutOfMemory, requester holder.Library, refused bool) string {
	switch oom.Cause {
	case bfc.DeviceFull:
		if !isOutOfMemory(oom.Err) {
			return "The GPU may have memory left: this is a GPU or driver fault; restarting the process may help."
		}
		if refused {
			text := "Free memory, end other processes of this job, or start it with a larger gpuconf run --memory."
			if !p.growth {
				text += " With --growth, a process takes only what it uses."
			}
			return text
		}
		if p.spills() {
			return "Free memory, on this GPU or on the host, which holds what does not fit on the GPU."
		}
		if oom.Rounded > p.device.TotalBytes {
			return "Request less memory: this is more than the GPU has."
		}
		if p.bfc.Stats().BytesInUse+oom.Rounded > p.device.TotalBytes {
			return "Free memory: with this request the process would use more than the GPU has, which is less than " +
				"the limit."
		}
		return "Free memory, or end other programs on this GPU."
	case bfc.Injected:
		return "The memory is not exhausted: the fixture gpu_oom_after or gpu_oom_each made this allocation fail."
	case bfc.PendingStreams:
		return "Synchronize those streams, then try again."
	case bfc.Fragmented:
		text := fmt.Sprintf("See gpuconf.memory.memory_map(\"%s\"). Allocate the largest buffers first, or raise "+
			"the limit.", shortName(p.number))
		if p.virtual == nil && p.device.VMM && !p.unified {
			text += " With memory growth, scattered free memory is remapped to one contiguous range."
		}
		return text
	case bfc.TooLarge:
		return "Request less memory, or " + p.raise + "."
	default:
		if requester != holder.Gpuconf { // which alone can wait
			return "Free memory, or " + p.raise + "."
		}
		return "Free memory, pass wait= to gpuconf.memory.allocate to wait until another thread frees memory, or " +
			p.raise + "."
	}
}
