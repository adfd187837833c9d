// SPDX-License-Identifier: Apache-2.0

package plan

// pool is an allocator over a device that counts.
type pool interface {
	allocate(o op) error
	free(o op) error
	usage() usage
	largestFree() (largest, reserved uint64)
	peakReserved() uint64
	failure(err error, o op) *Failure // nil if err is not that memory is used up
	alike() (low, high uint64)        // limits under which the pool would have done the same so far, from low to high
	// guess returns a limit that might be the least one, or 0 if nothing is known. short is the size of the request
	// that failed, or 0 if none did.
	guess(short uint64) uint64
	close() error
}

// usage is a pool's memory in bytes.
type usage struct {
	inUse    uint64 // blocks as the pool sizes them
	reserved uint64 // taken from the device
}

func newPool(v variant, limitBytes uint64, card Card, w *workload) (pool, error) {
	if v.policy.pytorch() {
		return newPyTorchPool(v, limitBytes, card, w), nil
	}
	return newBFCPool(v.policy, limitBytes, card, w.blocks)
}
