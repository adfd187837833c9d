// SPDX-License-Identifier: Apache-2.0

package cublas

import (
	"fmt"

	"gpuconf/gocore/base/status"
)

// Status is a cublasStatus_t other than success, used as an error value.
type Status int

// The values that gpuconf distinguishes; the numbers are cuBLAS's (cublas_api.h, cublasStatus_t).
const (
	NotInitialized Status = 1
	AllocFailed    Status = 3
	InvalidValue   Status = 7
	ArchMismatch   Status = 8
	NotSupported   Status = 15
)

// kinds maps each known Status to its name, its kind of error and a hint at the next step.
var kinds = map[Status]struct {
	name string
	code status.Code
	hint string
}{
	NotInitialized: {"NOT_INITIALIZED", status.Unavailable, ": its CUDA runtime failed to start. Check that the " +
		"NVIDIA driver is new enough for this version, and that the GPU has some memory left outside the pools"},
	AllocFailed: {"ALLOC_FAILED", status.ResourceExhausted, ": cuBLAS needs some GPU memory outside the pools, and " +
		"none is left. Lower the limits of the pools"},
	InvalidValue: {"INVALID_VALUE", status.Internal, ""},
	ArchMismatch: {"ARCH_MISMATCH", status.Unavailable, ": this version does not support the GPU. Install one that " +
		"does, or run the operation on the CPU with gpuconf.device(\"CPU:0\")"},
	11:           {"MAPPING_ERROR", status.Unknown, ""},
	13:           {"EXECUTION_FAILED", status.Unknown, ""},
	14:           {"INTERNAL_ERROR", status.Unknown, ""},
	NotSupported: {"NOT_SUPPORTED", status.Unimplemented, ""},
	16:           {"LICENSE_ERROR", status.Unknown, ""},
}

// Error returns cuBLAS's name and number, such as "CUBLAS_STATUS_ALLOC_FAILED (3)".
func (s Status) Error() string {
	if kind, ok := kinds[s]; ok {
		return fmt.Sprintf("CUBLAS_STATUS_%s (%d)", kind.name, int(s))
	}
	return fmt.Sprintf("CUBLAS_STATUS (%d)", int(s))
}

// failed returns the error for a Status: the version of cuBLAS, the operation, the Status, and the next step.
func (s Status) failed(version string, ordinal int, what string) error {
	return status.Errorf(kinds[s].code, "cuBLAS %s failed on GPU %d (%s): %w%s", version, ordinal, what, s,
		kinds[s].hint)
}
