// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cublas

// #cgo CFLAGS: -std=gnu11 -Wall -Wextra -Wno-unused-parameter
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"gpuconf/gocore/base/status"
)

// loaded is process-wide: the table of functions.
var loaded struct {
	sync.Mutex
	version string // "12.9.1"; "" until the table is filled
}

// load fills the table from the first candidate that can be used, and returns its version. After a failure a later call
// tries again.
func (l *Library) load() (version string, err error) {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.version != "" {
		return loaded.version, nil
	}
	devices, err := l.driver.Devices()
	if err != nil {
		return "", err
	}
	usable := majors(l.driver.Version(), devices)
	var complaints []string
	for _, one := range candidates(usable, l.folders) {
		if one.before != "" && !exists(one.path) {
			continue
		}
		var answer C.struct_cublas_load_answer
		one.load(&answer)
		switch text := C.GoString(&answer.text[0]); {
		case answer.state == C.CUBLAS_LOADED:
			v := answer.version
			loaded.version = fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
			return loaded.version, nil
		case answer.state == C.CUBLAS_INCOMPLETE:
			complaints = append(complaints, fmt.Sprintf("%s is not a cuBLAS library: it lacks %s", one.path, text))
		case text != "":
			complaints = append(complaints, text)
		}
	}
	return "", errNone(usable, complaints)
}

func errNone(usable []int, complaints []string) error {
	return status.Errorf(status.Unavailable, "operations on a GPU need cuBLAS (%s): pip install '%s', or run them on "+
		"the CPU with gpuconf.device(\"CPU:0\")",
		strings.Join(complaints, "; "), extra(usable[0]))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (c candidate) load(answer *C.struct_cublas_load_answer) {
	var before *C.char
	if c.before != "" {
		before = C.CString(c.before)
		defer C.free(unsafe.Pointer(before))
	}
	path := C.CString(c.path)
	defer C.free(unsafe.Pointer(path))
	onlyLoaded := C.int(0)
	if c.loaded {
		onlyLoaded = 1
	}
	C.cublas_load(before, path, onlyLoaded, answer)
}
