// SPDX-License-Identifier: Apache-2.0

package bfc

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/pool/chunks"
)

// SplitRule decides when the unneeded part of a chunk is split off. The zero value splits whenever anything is left,
// so that a block never wastes 256 bytes or more.
type SplitRule struct {
	// TensorFlow splits only if the chunk is at least twice the request, or the rest is at least 128 MiB. Ties go to
	// the lowest address of all. Addresses then match TensorFlow's.
	TensorFlow bool

	// FragmentationFraction, if above 0, replaces the 128 MiB with this fraction of the limit, up to 1 TiB. It must be
	// at most 1 and requires TensorFlow.
	FragmentationFraction float64
}

const tensorFlowSlackBytes = 128 << 20

// splitter is a SplitRule resolved for one limit.
type splitter struct {
	tensorFlow bool
	slackBytes uint64 // TensorFlow: a rest of this many bytes is always split off
}

func newSplitter(rule SplitRule, limitBytes uint64) (splitter, error) {
	fraction := rule.FragmentationFraction
	if !(fraction >= 0 && fraction <= 1) {
		return splitter{}, status.Errorf(status.InvalidArgument, "the fragmentation fraction is %v; it must be from "+
			"0 to 1", fraction)
	}
	if fraction > 0 && !rule.TensorFlow {
		return splitter{}, status.Errorf(status.InvalidArgument,
			"a fragmentation fraction (%v) requires the TensorFlow split rule; exact splitting does not use it",
			fraction)
	}
	s := splitter{tensorFlow: rule.TensorFlow, slackBytes: tensorFlowSlackBytes}
	if fraction > 0 {
		s.slackBytes = limitBytes
		if product := fraction * float64(limitBytes); product < float64(limitBytes) {
			s.slackBytes = uint64(product)
		}
	}
	s.slackBytes = min(s.slackBytes, chunks.MostSlack)
	return s, nil
}

// splits reports whether a chunk of have bytes that serves a request of want <= have bytes must be split (invariant
// 10).
func (s splitter) splits(have, want uint64) bool {
	rest := have - want
	if !s.tensorFlow {
		return rest > 0
	}
	return rest > 0 && (rest >= want || rest >= s.slackBytes)
}
