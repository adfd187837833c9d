// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"

	"gpuconf/gocore/base/status"
)

// Result is an nvmlReturn_t other than success, used as an error value. Success is a nil error, never a Result.
type Result int

// The values that this package distinguishes; the numbers are NVML's (nvml.h, enum nvmlReturn_t).
const (
	ErrorUninitialized         Result = 1
	ErrorInvalidArgument       Result = 2
	ErrorNotSupported          Result = 3
	ErrorNoPermission          Result = 4
	ErrorNotFound              Result = 6
	ErrorDriverNotLoaded       Result = 9
	ErrorTimeout               Result = 10
	ErrorLibraryNotFound       Result = 12
	ErrorFunctionNotFound      Result = 13
	ErrorGPUIsLost             Result = 15
	ErrorResetRequired         Result = 16
	ErrorOperatingSystem       Result = 17
	ErrorLibRMVersionMismatch  Result = 18
	ErrorMemory                Result = 20
	ErrorInsufficientResources Result = 23
	ErrorNotReady              Result = 27
	ErrorGPUNotFound           Result = 28
	ErrorUnknown               Result = 999
)

// answers maps each Result to its name, its kind of error and its meaning for the caller, with
// the next step if there is one.
var answers = map[Result]struct {
	name    string
	code    status.Code
	meaning string
}{
	ErrorUninitialized: {"UNINITIALIZED", status.FailedPrecondition,
		"NVML was not started, or was shut down by other code"},
	ErrorInvalidArgument: {"INVALID_ARGUMENT", status.InvalidArgument,
		"an argument is invalid"},
	ErrorNotSupported: {"NOT_SUPPORTED", status.Unimplemented,
		"this GPU or its driver does not support the query"},
	ErrorNoPermission: {"NO_PERMISSION", status.Unavailable,
		"this user has no permission; check the permissions of /dev/nvidiactl and /dev/nvidia0, or " +
			"start the container with access to the GPU"},
	ErrorNotFound: {"NOT_FOUND", status.NotFound,
		"NVML did not find the object"},
	ErrorDriverNotLoaded: {"DRIVER_NOT_LOADED", status.Unavailable,
		"the NVIDIA kernel driver is not loaded; run nvidia-smi on the host for details"},
	ErrorTimeout: {"TIMEOUT", status.Unavailable,
		"the driver did not answer in time; try again"},
	ErrorLibraryNotFound: {"LIBRARY_NOT_FOUND", status.Unavailable,
		"NVML, or a library that it needs, cannot be loaded"},
	ErrorFunctionNotFound: {"FUNCTION_NOT_FOUND", status.Unimplemented,
		"this driver is too old to have the function; update the driver"},
	ErrorGPUIsLost: {"GPU_IS_LOST", status.Unavailable,
		"the GPU fell off the bus; reset it or restart the machine"},
	ErrorResetRequired: {"RESET_REQUIRED", status.Unavailable,
		"the GPU needs a reset: nvidia-smi --gpu-reset"},
	ErrorOperatingSystem: {"OPERATING_SYSTEM", status.Unavailable,
		"the operating system blocks access to the GPU, for example by a container's device rules"},
	ErrorLibRMVersionMismatch: {"LIB_RM_VERSION_MISMATCH", status.Unavailable,
		"the driver's library and the kernel driver have different versions, for example after an update; restart " +
			"the machine, or, in a container, the container"},
	ErrorMemory: {"MEMORY", status.ResourceExhausted,
		"the host has no memory left for NVML"},
	ErrorInsufficientResources: {"INSUFFICIENT_RESOURCES", status.ResourceExhausted,
		"the driver has run out of something other than memory"},
	ErrorNotReady: {"NOT_READY", status.Unavailable,
		"the system is still starting; try again"},
	ErrorGPUNotFound: {"GPU_NOT_FOUND", status.NotFound,
		"the driver found no GPU"},
	ErrorUnknown: {"UNKNOWN", status.Unknown,
		"the driver failed without giving a reason; check dmesg"},
}

// Error returns NVML's name and number, such as "NVML_ERROR_NO_PERMISSION (4)".
func (r Result) Error() string {
	name := "NVML_ERROR"
	if answer, ok := answers[r]; ok {
		name += "_" + answer.name
	}
	return fmt.Sprintf("%s (%d)", name, int(r))
}

// failure returns the error for a call that returned r; nil for success. call is the function's name and the object
// that it was called for.
func failure[R ~int32](r R, call string) error {
	result := Result(r)
	if result == 0 {
		return nil
	}
	answer, ok := answers[result]
	if !ok {
		return status.Errorf(status.Unknown, "%s: %w", call, result)
	}
	return status.Errorf(answer.code, "%s: %w: %s", call, result, answer.meaning)
}
