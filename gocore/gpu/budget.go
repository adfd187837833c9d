// SPDX-License-Identifier: Apache-2.0

package gpu

// Budget is how the processes of a job together use the memory that the job may have of a device. All sizes are bytes.
// Others allocate and free meanwhile, so the figures are a snapshot; LimitBytes is the sum of the other three unless
// more than the limit is in use.
type Budget struct {
	LimitBytes   uint64 // the most that the job may have of the device's memory
	PoolBytes    uint64 // what gpuconf's pools have reserved
	OutsideBytes uint64 // what else was allocated: by other libraries, and by processes without gpuconf
	FreeBytes    uint64 // what is left of the limit
}

// Budgeted is a Driver that knows the budget of the job to which the process belongs.
type Budgeted interface {
	// Budget returns the job's budget on a device; ok is false if it has none there. It creates no context and takes no
	// device memory.
	Budget(ordinal int) (budget Budget, ok bool)
}
