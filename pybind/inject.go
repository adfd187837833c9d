// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/base/status"
	"gpuconf/pybind/process"
)

// FailAllocation makes the n-th allocation from now on fail, on any logical GPU, in any thread and library; 0 ends the
// counting.
func FailAllocation(n int64) (done bool, err error) {
	defer process.Gate(&err)
	m, err := manager()
	if err != nil {
		return false, err
	}
	if n < 0 {
		return false, status.Errorf(status.InvalidArgument, "n must be at least 0, but got %d", n)
	}
	return true, m.FailAllocation(uint64(n))
}

// CountedAllocations returns the number of allocations since FailAllocation, up to and including the one that failed.
func CountedAllocations() (count int64, err error) {
	defer process.Gate(&err)
	m, err := manager()
	if err != nil {
		return 0, err
	}
	return int64(m.CountedAllocations()), nil
}
