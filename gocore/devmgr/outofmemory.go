package devmgr

import (
	"errors"
	"fmt"
	"math"

	"gpuconf/gocore/bfc"
	"gpuconf/gocore/human"
	"gpuconf/gocore/status"
)

// outOfMemory tells a failed allocation to the person who ran into it. The first sentence is TensorFlow's as far as it goes;
// then who holds what, and one next step. " out of memory" stands in it in these letters: other libraries look for them.
func (m *Manager) outOfMemoryLocked(p *pool, bytes uint64, err error) error {
	var oom *bfc.OutOfMemory
	if !errors.As(err, &oom) {
		return err
	}
	text := fmt.Sprintf("OOM when allocating %s on %s/device:GPU:%d by allocator %s: out of memory, %s.",
		exactBytes(bytes), localTask, p.number, p.name, p.reason(oom))
	text += fmt.Sprintf("\n  limit %s · in use %s in %s · reserved %s · largest free piece %s",
		exactBytes(oom.Limit), exactBytes(oom.InUse), plural(p.bfc.Stats().LiveBlocks, "block"), exactBytes(oom.Reserved), exactBytes(oom.LargestFree))
	text += "\n  on " + p.device.Name
	if total := p.device.TotalBytes; bytes > total || oom.Limit > total {
		text += ", which has " + exactBytes(total) + " in all"
	}
	text += ". " + p.advice(oom)
	if oom.Cause == bfc.DeviceFull {
		text += m.neighboursLocked(p)
	}
	return status.Errorf(status.ResourceExhausted, "%w", &reported{text, err})
}

// reported is an out-of-memory error with a person's text in place of the allocator's.
type reported struct {
	text  string
	cause error
}

func (r *reported) Error() string { return r.text }
func (r *reported) Unwrap() error { return r.cause }

func (p *pool) reason(oom *bfc.OutOfMemory) string {
	switch oom.Cause {
	case bfc.TooLarge:
		return "the request is larger than the whole limit"
	case bfc.DeviceFull:
		if !isOutOfMemory(oom.Err) {
			return fmt.Sprintf("the GPU's driver failed to give memory that the limit allows (%v)", rootOf(oom.Err))
		}
		return fmt.Sprintf("the GPU has no more to give, though the limit would allow it (%v)", rootOf(oom.Err))
	case bfc.PendingStreams:
		return "enough memory is free, but work that is queued in other streams may still use it, and it could not be waited for"
	case bfc.Fragmented:
		switch {
		case oom.Err != nil:
			return fmt.Sprintf("enough memory is free, but in pieces that are too small, and they could not be moved together (%v)", rootOf(oom.Err))
		case oom.Movable > 0 && oom.Movable < oom.Rounded:
			return fmt.Sprintf("enough memory is free, but in pieces that are too small; only %s of it can be moved together, as no block touches those granules",
				exactBytes(oom.Movable))
		}
		return "enough memory is free, but in pieces that are too small"
	default:
		if oom.Captured > 0 {
			return fmt.Sprintf("the limit is reached, and %s that are free are kept for captured graphs", exactBytes(oom.Captured))
		}
		return "the limit is reached"
	}
}

// neighboursLocked tells what the other logical GPUs of this process have taken of the same physical GPU; "" for nothing.
func (m *Manager) neighboursLocked(p *pool) (text string) {
	for _, other := range m.gpus {
		if other == p || other.device.Ordinal != p.device.Ordinal {
			continue
		}
		if s := other.bfc.Stats(); s.BytesReserved > 0 {
			text += fmt.Sprintf(" %s has reserved %s of it and uses %s.", shortName(other.number), exactBytes(s.BytesReserved), exactBytes(s.BytesInUse))
		}
	}
	return text
}

func (p *pool) advice(oom *bfc.OutOfMemory) string {
	switch oom.Cause {
	case bfc.DeviceFull:
		if !isOutOfMemory(oom.Err) {
			return "The GPU may have memory left: this is a fault of it or of its driver, which ends with the process at best."
		}
		return "Free memory, or end the other programs on this GPU."
	case bfc.PendingStreams:
		return "Let those streams finish (synchronise them), then ask again."
	case bfc.Fragmented:
		text := fmt.Sprintf("See gpuconf.memory.memory_map(\"%s\") for the pieces; allocate the largest buffers first, or raise the limit.", shortName(p.number))
		if p.virtual == nil && p.device.VMM {
			text += " With memory growth, free pieces are moved together."
		}
		return text
	case bfc.TooLarge:
		return "Ask for less, or give this logical GPU a larger memory_limit."
	default:
		return "Free memory, ask with wait= for another thread to do so, or give this logical GPU a larger memory_limit."
	}
}

// rootOf is the innermost error: what the driver itself said.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// exactBytes is a size for people, with every byte where rounding hides some.
func exactBytes(n uint64) string {
	if n < 1024 || n > math.MaxInt64 {
		return plural(n, "byte")
	}
	return fmt.Sprintf("%s (%d bytes)", human.Bytes(n), n)
}
