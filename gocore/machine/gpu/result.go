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

// Error returns CUDA's name and number, such as "CUDA_ERROR_OUT_OF_MEMORY (2)".
func (r Result) Error() string {
	name, ok := resultNames[r]
	if !ok {
		name = "CUDA_ERROR"
	}
	return fmt.Sprintf("%s (%d)", name, int(r))
}
