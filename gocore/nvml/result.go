package nvml

import (
	"fmt"

	"gpuconf/gocore/status"
)

// Result is NVML's answer other than success, by number, as an error value. Success is a nil error, never a Result.
type Result int

// The answers that this package tells apart; the numbers are NVML's (nvml.h, enum nvmlReturn_t).
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

// answers says for each Result its name, the kind of failure that it is, and what it means to the caller, with
// the next step where there is one.
var answers = map[Result]struct {
	name    string
	code    status.Code
	meaning string
}{
	ErrorUninitialized: {"UNINITIALIZED", status.FailedPrecondition,
		"NVML was not started, or was shut down by other code"},
	ErrorInvalidArgument: {"INVALID_ARGUMENT", status.InvalidArgument,
		"NVML does not know this argument"},
	ErrorNotSupported: {"NOT_SUPPORTED", status.Unimplemented,
		"this GPU or its driver does not tell"},
	ErrorNoPermission: {"NO_PERMISSION", status.Unavailable,
		"this user may not ask; look at the permissions of /dev/nvidiactl and /dev/nvidia0, or " +
			"ask for the GPU to be given to this container"},
	ErrorNotFound: {"NOT_FOUND", status.NotFound,
		"NVML knows no such thing"},
	ErrorDriverNotLoaded: {"DRIVER_NOT_LOADED", status.Unavailable,
		"the NVIDIA kernel driver is not running; nvidia-smi on the host tells more"},
	ErrorTimeout: {"TIMEOUT", status.Unavailable,
		"the driver did not answer in time; try again"},
	ErrorLibraryNotFound: {"LIBRARY_NOT_FOUND", status.Unavailable,
		"NVML, or a library that it needs, can't be loaded"},
	ErrorFunctionNotFound: {"FUNCTION_NOT_FOUND", status.Unimplemented,
		"this driver is too old to have the function; a newer one has it"},
	ErrorGPUIsLost: {"GPU_IS_LOST", status.Unavailable,
		"the GPU fell off the bus; reset it or restart the machine"},
	ErrorResetRequired: {"RESET_REQUIRED", status.Unavailable,
		"the GPU needs a reset: nvidia-smi --gpu-reset"},
	ErrorOperatingSystem: {"OPERATING_SYSTEM", status.Unavailable,
		"the operating system keeps this process from the GPU, as a container's device rules do"},
	ErrorLibRMVersionMismatch: {"LIB_RM_VERSION_MISMATCH", status.Unavailable,
		"the driver's library and the kernel driver have different versions, as after an update; restart the machine, or " +
			"in a container the container"},
	ErrorMemory: {"MEMORY", status.ResourceExhausted,
		"the host has no memory left for NVML"},
	ErrorInsufficientResources: {"INSUFFICIENT_RESOURCES", status.ResourceExhausted,
		"the driver has run out of something other than memory"},
	ErrorNotReady: {"NOT_READY", status.Unavailable,
		"the system is still starting; try again"},
	ErrorGPUNotFound: {"GPU_NOT_FOUND", status.NotFound,
		"the driver found no GPU"},
	ErrorUnknown: {"UNKNOWN", status.Unknown,
		"the driver failed for a reason that it does not tell; dmesg may"},
}

// Error is NVML's name and number, such as "NVML_ERROR_NO_PERMISSION (4)".
func (r Result) Error() string {
	name := "NVML_ERROR"
	if answer, ok := answers[r]; ok {
		name += "_" + answer.name
	}
	return fmt.Sprintf("%s (%d)", name, int(r))
}

// failure is the error for a call that answered r; nil for success. call is the function's name, with what it was asked
// about.
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
