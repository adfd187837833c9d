// SPDX-License-Identifier: Apache-2.0

package caching

import "math/bits"

const (
	mib = 1 << 20

	leastBlock   = 512      // requests are rounded up to multiples of this
	mostSmall    = 1 * mib  // the largest block of the small group
	smallSegment = 2 * mib  // the size of its segments
	largeSegment = 20 * mib // the default size of segments for blocks below leastExact
	leastExact   = 10 * mib // larger requests get a segment of their own size
	roundLarge   = 2 * mib  // rounded up to multiples of this
)

// Settings are those of PYTORCH_CUDA_ALLOC_CONF that decide about addresses. The zero value has PyTorch's defaults.
// Sizes are bytes.
type Settings struct {
	MaxSplitBytes uint64 // max_split_size_mb: larger blocks are not split; 0: all are
	// MaxRoundingBytes is max_non_split_rounding_mb: how much larger than the request an unsplit block may be. 0 means
	// 20 MiB.
	MaxRoundingBytes   uint64
	LargeSegmentBytes  uint64  // large_segment_size_mb; 0: 20 MiB
	GarbageThreshold   float64 // garbage_collection_threshold: a fraction of the limit; 0: none
	ExpandableSegments bool    // expandable_segments
	// RoundupDivisions is roundup_power2_divisions, for the powers of two from 1 MiB to 32 GiB and up. 0 and 1 mean
	// none.
	RoundupDivisions [16]uint64
}

// RoundupAll returns RoundupDivisions with the same number for all sizes.
func RoundupAll(divisions uint64) (all [16]uint64) {
	for i := range all {
		all[i] = divisions
	}
	return all
}

// Round returns the size of the block that a request needs.
func (s *Settings) Round(bytes uint64) uint64 {
	if bytes < leastBlock {
		return leastBlock
	}
	interval := min(max(bits.Len64(bytes)-bits.Len64(mib), 0), len(s.RoundupDivisions)-1)
	if divisions := s.RoundupDivisions[interval]; divisions > 1 && bytes > leastBlock*divisions {
		return roundToDivision(bytes, divisions)
	}
	return roundUp(bytes, leastBlock)
}

// roundToDivision rounds up to the next of the equal steps between a power of two and its double.
func roundToDivision(bytes, divisions uint64) uint64 {
	if bytes&(bytes-1) == 0 {
		return bytes
	}
	power := uint64(1) << (bits.Len64(bytes) - 1)
	step := power >> (bits.Len64(divisions) - 1)
	if step == 0 {
		return power << 1
	}
	return roundUp(bytes, step)
}

// segmentFor returns the size of a new segment for a block of this size.
func (s *Settings) segmentFor(rounded uint64) uint64 {
	switch {
	case rounded <= mostSmall:
		return smallSegment
	case rounded < leastExact:
		return s.largeSegment()
	}
	return roundUp(rounded, roundLarge)
}

// SegmentFor returns what a request asks the device for if no block is cached for it.
func (s *Settings) SegmentFor(bytes uint64) uint64 { return s.segmentFor(s.Round(bytes)) }

// LargestSegment returns the size of the largest segment that requests up to a size lead to. Expandable ones are
// larger.
func (s *Settings) LargestSegment(bytes uint64) uint64 {
	return max(s.SegmentFor(bytes), s.largeSegment())
}

func (s *Settings) largeSegment() uint64 {
	if s.LargeSegmentBytes > 0 {
		return s.LargeSegmentBytes
	}
	return largeSegment
}

// splits reports whether the rest of a block is split off after a request.
func (s *Settings) splits(small bool, rounded, rest uint64) bool {
	if small || s.ExpandableSegments {
		return rest >= leastBlock
	}
	return rounded < s.maxSplit() && rest > mostSmall
}

// oversize reports whether a free block must not serve a request, although it is the smallest that is large enough:
// blocks that may not be split are kept for requests of about their size.
func (s *Settings) oversize(rounded, block uint64) bool {
	if rounded < s.maxSplit() {
		return block >= s.maxSplit()
	}
	rounding := s.MaxRoundingBytes
	if rounding == 0 {
		rounding = largeSegment
	}
	return block-rounded >= rounding
}

// maxSplit is the size from which on blocks are not split.
func (s *Settings) maxSplit() uint64 {
	if s.MaxSplitBytes == 0 {
		return 1<<64 - 1
	}
	return s.MaxSplitBytes
}

func roundUp(bytes, step uint64) uint64 { return (bytes + step - 1) / step * step }

// Unsplit reports whether a block for a request of this rounded size keeps all of its segment.
func (s *Settings) Unsplit(rounded uint64) bool {
	return rounded >= s.maxSplit() && !s.ExpandableSegments
}
