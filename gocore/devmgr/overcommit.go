package devmgr

import (
	"fmt"
	"math"

	"gpuconf/gocore/config"
	"gpuconf/gocore/human"
)

// noticeOvercommitted warns of cards whose logical GPUs were promised more than there is. TensorFlow allows that, and so does gpuconf:
// a limit is no reservation, and not all may be needed at once.
func (m *Manager) noticeOvercommitted(pools []*pool) {
	for _, first := range pools {
		if firstOf(pools, first.device.Ordinal) != first {
			continue
		}
		limits, bytes := promised(pools, first.device.Ordinal)
		if bytes > first.device.TotalBytes {
			m.notice(config.Notice{Level: "warning", Text: fmt.Sprintf("%s %s, and %s has only %s: the rest can't be had",
				limits, bytesText(bytes), first.device.Name, bytesText(first.device.TotalBytes))})
		}
	}
}

// promised adds up the limits that were asked for on an ordinal, and says whose they are.
func promised(pools []*pool, ordinal int) (limits string, bytes uint64) {
	var count uint64
	for _, p := range pools {
		if !p.limited || p.device.Ordinal != ordinal {
			continue
		}
		count++
		if count == 1 {
			limits = fmt.Sprintf("the memory_limit of %s is", shortName(p.number))
		}
		bytes += min(p.limitBytes, math.MaxUint64-bytes)
	}
	if count > 1 {
		limits = fmt.Sprintf("the memory_limits of %s add up to", human.Count(count, "logical GPU"))
	}
	return limits, bytes
}

func bytesText(n uint64) string { return human.Bytes(n) }
