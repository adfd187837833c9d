// SPDX-License-Identifier: Apache-2.0

package chunks

import "math"

// Granularity of sizes and addresses, in bytes.
const (
	Granularity     = 256
	granularityBits = 8
)

// RoundUp returns the chunk size that serves a request. ok is false where that would exceed 2^64.
func RoundUp(bytes uint64) (rounded uint64, ok bool) {
	if bytes > math.MaxUint64-(Granularity-1) {
		return math.MaxUint64, false
	}
	return (bytes + Granularity - 1) &^ (Granularity - 1), true
}
