// SPDX-License-Identifier: Apache-2.0

package gpu

import "fmt"

// Result is a CUresult other than success, used as an error value. Success is
// a nil error, never a Result.
type Result int

// The CUresult values that gpuconf names; the numbers are CUDA's (cuda.h, enum cudaError_enum).
const (
	ErrorInvalidValue         Result = 1
	ErrorOutOfMemory          Result = 2
	ErrorNotInitialized       Result = 3
	ErrorDeinitialized        Result = 4
	ErrorStubLibrary          Result = 34
	ErrorDeviceUnavailable    Result = 46
	ErrorNoDevice             Result = 100
	ErrorInvalidDevice        Result = 101
	ErrorInvalidContext       Result = 201
	ErrorAlreadyMapped        Result = 208
	ErrorNotMapped            Result = 211
	ErrorInvalidHandle        Result = 400
	ErrorNotReady             Result = 600
	ErrorIllegalAddress       Result = 700
	ErrorNotPermitted         Result = 800
	ErrorNotSupported         Result = 801
	ErrorSystemNotReady       Result = 802
	ErrorSystemDriverMismatch Result = 803
	ErrorUnknown              Result = 999

	ErrorCompatNotSupportedOnDevice Result = 804

	ErrorContextIsDestroyed       Result = 709
	ErrorStreamCaptureUnsupported Result = 900
	ErrorStreamCaptureInvalidated Result = 901
	ErrorStreamCaptureMerge       Result = 902
	ErrorStreamCaptureUnmatched   Result = 903
	ErrorStreamCaptureUnjoined    Result = 904
	ErrorStreamCaptureIsolation   Result = 905
	ErrorStreamCaptureImplicit    Result = 906
	ErrorCapturedEvent            Result = 907
)

var resultNames = map[Result]string{
	ErrorInvalidValue:         "CUDA_ERROR_INVALID_VALUE",
	ErrorOutOfMemory:          "CUDA_ERROR_OUT_OF_MEMORY",
	ErrorNotInitialized:       "CUDA_ERROR_NOT_INITIALIZED",
	ErrorDeinitialized:        "CUDA_ERROR_DEINITIALIZED",
	ErrorNoDevice:             "CUDA_ERROR_NO_DEVICE",
	ErrorInvalidDevice:        "CUDA_ERROR_INVALID_DEVICE",
	ErrorInvalidContext:       "CUDA_ERROR_INVALID_CONTEXT",
	ErrorAlreadyMapped:        "CUDA_ERROR_ALREADY_MAPPED",
	ErrorNotMapped:            "CUDA_ERROR_NOT_MAPPED",
	ErrorInvalidHandle:        "CUDA_ERROR_INVALID_HANDLE",
	ErrorNotReady:             "CUDA_ERROR_NOT_READY",
	ErrorIllegalAddress:       "CUDA_ERROR_ILLEGAL_ADDRESS",
	ErrorNotPermitted:         "CUDA_ERROR_NOT_PERMITTED",
	ErrorNotSupported:         "CUDA_ERROR_NOT_SUPPORTED",
	ErrorSystemNotReady:       "CUDA_ERROR_SYSTEM_NOT_READY",
	ErrorSystemDriverMismatch: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
	ErrorUnknown:              "CUDA_ERROR_UNKNOWN",

	ErrorStubLibrary:                "CUDA_ERROR_STUB_LIBRARY",
	ErrorDeviceUnavailable:          "CUDA_ERROR_DEVICE_UNAVAILABLE",
	ErrorCompatNotSupportedOnDevice: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",

	ErrorContextIsDestroyed:       "CUDA_ERROR_CONTEXT_IS_DESTROYED",
	ErrorStreamCaptureUnsupported: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	ErrorStreamCaptureInvalidated: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	ErrorStreamCaptureMerge:       "CUDA_ERROR_STREAM_CAPTURE_MERGE",
	ErrorStreamCaptureUnmatched:   "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
	ErrorStreamCaptureUnjoined:    "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
	ErrorStreamCaptureIsolation:   "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
	ErrorStreamCaptureImplicit:    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
	ErrorCapturedEvent:            "CUDA_ERROR_CAPTURED_EVENT",

	// Only used in messages.
	205: "CUDA_ERROR_MAP_FAILED",
	206: "CUDA_ERROR_UNMAP_FAILED",
	214: "CUDA_ERROR_ECC_UNCORRECTABLE",
	304: "CUDA_ERROR_OPERATING_SYSTEM",
	401: "CUDA_ERROR_ILLEGAL_STATE",
	402: "CUDA_ERROR_LOSSY_QUERY",
	500: "CUDA_ERROR_NOT_FOUND",
	702: "CUDA_ERROR_LAUNCH_TIMEOUT",
	714: "CUDA_ERROR_HARDWARE_STACK_ERROR",
	715: "CUDA_ERROR_ILLEGAL_INSTRUCTION",
	716: "CUDA_ERROR_MISALIGNED_ADDRESS",
	717: "CUDA_ERROR_INVALID_ADDRESS_SPACE",
	718: "CUDA_ERROR_INVALID_PC",
	719: "CUDA_ERROR_LAUNCH_FAILED",
	908: "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
}

// Error returns CUDA's name and number, such as "CUDA_ERROR_OUT_OF_MEMORY (2)".
func (r Result) Error() string {
	name, ok := resultNames[r]
	if !ok {
		name = "CUDA_ERROR"
	}
	return fmt.Sprintf("%s (%d)", name, int(r))
}
