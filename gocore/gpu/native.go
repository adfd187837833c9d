// SPDX-License-Identifier: Apache-2.0

package gpu

// CaptureInfo is a Driver whose cuStreamGetCaptureInfo C code may call directly, for a stream of the thread's current
// context.
type CaptureInfo interface {
	// CaptureInfoFunction returns the function's address.
	CaptureInfoFunction() uintptr
}

// Native is a Driver whose contexts NVIDIA's other libraries can use; facts 29 and 30.
type Native interface {
	// Version returns the newest CUDA version that the driver supports: 12040 is 12.4.
	Version() int

	// InContext runs work in a device's primary context.
	InContext(ordinal int, work func() error) error

	// AtContextEnd registers end to be called before the device's primary context ends. entered reports whether the
	// context is current during the call: a context that has failed can no longer be entered.
	AtContextEnd(ordinal int, end func(entered bool)) error
}
