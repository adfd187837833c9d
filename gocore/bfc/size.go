package bfc

import "math"

// granularity of sizes and addresses, in bytes.
const (
	granularity     = 256
	granularityBits = 8
)

// roundUp gives the chunk size that serves a request. ok is false when that would pass 2^64.
func roundUp(bytes uint64) (rounded uint64, ok bool) {
	if bytes > math.MaxUint64-(granularity-1) {
		return math.MaxUint64, false
	}
	return (bytes + granularity - 1) &^ (granularity - 1), true
}
