// SPDX-License-Identifier: Apache-2.0

package devmgr

import (
	"fmt"
	"math"

	"gpuconf/gocore/base/human"
	"gpuconf/gocore/tf/config"
)

// noticeOvercommitted reports cards whose limits add up to more than their memory. TensorFlow allows that, and so does
// gpuconf: a limit is not a reservation, and the pools may not need it all at once. With unified memory the host holds
// the excess, which is slow but works.
func (m *Manager) noticeOvercommitted(pools []*pool) {
	for _, first := range pools {
		if firstOf(pools, first.device.Ordinal) != first {
			continue
		}
		limits, bytes := promised(pools, first.device.Ordinal)
		if bytes <= first.device.TotalBytes {
			continue
		}
		level, rest := "warning", "the excess is not available"
		if first.spills() {
			level, rest = "info", "unified memory that does not fit on the GPU is kept in host memory"
		}
		if hint := wrongUnit(pools, first.device.Ordinal); hint != "" {
			level, rest = "warning", rest+hint
		}
		m.notice(config.Notice{Level: level, Text: fmt.Sprintf("%s %s, and %s has only %s: %s",
			limits, bytesText(bytes), first.device.Name, bytesText(first.device.TotalBytes), rest)})
	}
}

// promised adds up the limits on an ordinal that are not bounded by the card's memory (explicit limits, and fractions
// of unified memory) and describes whose they are.
func promised(pools []*pool, ordinal int) (limits string, bytes uint64) {
	var count uint64
	what := "limit"
	for _, p := range pools {
		if !p.limited && !p.unified || p.device.Ordinal != ordinal {
			continue
		}
		if p.limited {
			what = "memory_limit"
		}
		count++
		if count == 1 {
			limits = fmt.Sprintf("the %s of %s is", what, shortName(p.number))
		}
		bytes += min(p.limitBytes, math.MaxUint64-bytes)
	}
	if count > 1 {
		limits = fmt.Sprintf("the %ss of %s add up to", what, human.Count(count, "logical GPU"))
	}
	return limits, bytes
}

func bytesText(n uint64) string { return human.Bytes(n) }
