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

// Library steers the fake cuBLAS that this process has loaded. Its calls are counted, and made to fail, by the fake driver's Count and Fail.
type Library struct{}

// Attach finds it by its soname, once the code under test has loaded it.
func Attach(soname string) (Library, error) {
	name := C.CString(soname)
	defer C.free(unsafe.Pointer(name))
	if complaint := C.attach_cublas(name); complaint != nil {
		return Library{}, errors.New(C.GoString(complaint))
	}
	return Library{}, nil
}

// Complaint is the first thing that was done wrong since it was last asked for, or "".
func (Library) Complaint() string { return C.GoString(C.cublas_complaint()) }

// Live counts the handles that were not destroyed.
func (Library) Live() int { return int(C.cublas_live()) }
