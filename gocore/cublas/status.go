package cublas

import (
	"fmt"

	"gpuconf/gocore/status"
)

// Status is cuBLAS's answer other than success: a cublasStatus_t by number, used as an error value.
type Status int

// The answers that gpuconf tells apart; the numbers are cuBLAS's (cublas_api.h, cublasStatus_t).
const (
	NotInitialized Status = 1
	AllocFailed    Status = 3
	InvalidValue   Status = 7
	ArchMismatch   Status = 8
	NotSupported   Status = 15
)

// kinds has the kind of each answer that has one, and the next step after it.
var kinds = map[Status]struct {
	name string
	code status.Code
	hint string
}{
	NotInitialized: {"NOT_INITIALIZED", status.Unavailable, ": CUDA's runtime in it does not start. Is the NVIDIA driver new enough for this " +
		"version, and has the GPU some memory left beside the pools?"},
	AllocFailed: {"ALLOC_FAILED", status.ResourceExhausted, ": the GPU has no memory left beside the pools, of which cuBLAS needs some: " +
		"give the pools a smaller limit"},
	InvalidValue: {"INVALID_VALUE", status.Internal, ""},
	ArchMismatch: {"ARCH_MISMATCH", status.Unavailable, ": this version has no code for the GPU. Install one that has, or compute on the CPU, " +
		"with gpuconf.device(\"CPU:0\")"},
	11:           {"MAPPING_ERROR", status.Unknown, ""},
	13:           {"EXECUTION_FAILED", status.Unknown, ""},
	14:           {"INTERNAL_ERROR", status.Unknown, ""},
	NotSupported: {"NOT_SUPPORTED", status.Unimplemented, ""},
	16:           {"LICENSE_ERROR", status.Unknown, ""},
}

// Error is cuBLAS's name and number, such as "CUBLAS_STATUS_ALLOC_FAILED (3)".
func (s Status) Error() string {
	if kind, ok := kinds[s]; ok {
		return fmt.Sprintf("CUBLAS_STATUS_%s (%d)", kind.name, int(s))
	}
	return fmt.Sprintf("CUBLAS_STATUS (%d)", int(s))
}

// failed is the error of an answer: what was asked, of which cuBLAS, what it said, and the next step.
func (s Status) failed(version string, ordinal int, what string) error {
	return status.Errorf(kinds[s].code, "cuBLAS %s failed on GPU %d (%s): %w%s", version, ordinal, what, s, kinds[s].hint)
}
