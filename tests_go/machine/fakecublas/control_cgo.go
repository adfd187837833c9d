//go:build cgo && linux

package fakecublas

// #cgo CFLAGS: -std=gnu11 -Wall -Wextra -Wno-unused-parameter
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "control.h"
import "C"

import (
	"errors"
	"unsafe"
)

// Library controls the fake cuBLAS that this process has loaded. The fake driver's Count and Fail also count its calls
// and make them fail.
type Library struct{}

// Attach finds it by its soname, after the code under test has loaded it.
func Attach(soname string) (Library, error) {
	name := C.CString(soname)
	defer C.free(unsafe.Pointer(name))
	if complaint := C.attach_cublas(name); complaint != nil {
		return Library{}, errors.New(C.GoString(complaint))
	}
	return Library{}, nil
}

// Complaint returns the first misuse since the last call of Complaint, or "".
func (Library) Complaint() string { return C.GoString(C.cublas_complaint()) }

// Live counts the handles that were not destroyed.
func (Library) Live() int { return int(C.cublas_live()) }
