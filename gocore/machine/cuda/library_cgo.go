// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package cuda

// #cgo CFLAGS: -std=gnu11 -Wall -Wextra -Wno-unused-parameter
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"strings"
	"sync"
	"unsafe"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// candidates are the names of the library, in the order in which they are tried. The loader finds the first where the
// driver's package or LD_LIBRARY_PATH put it, or where another library of the process loaded it from. The others, of
// WSL and NixOS, are outside the loader's search path. libcuda.so is not a candidate: it is the toolkit's stub for
// linking.
var candidates = []string{
	"libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
	"/run/opengl-driver/lib/libcuda.so.1",
}

// library is process-wide: the table of functions.
var library struct {
	sync.Mutex
	version   C.int  // 0 until the table is filled
	simulator string // its path if the table is of the simulator that OpenSimulator has loaded
}

// load fills the table from the first candidate that can be loaded. After a failure a later call tries again.
func load() (version C.int, err error) {
	library.Lock()
	defer library.Unlock()
	if library.version != 0 {
		return library.version, nil
	}
	var complaints []string
	for _, path := range candidates {
		var answer C.struct_cuda_load_answer
		loadFrom(path, &answer)
		switch answer.state {
		case C.CUDA_LOADED:
			library.version = answer.version
			return answer.version, nil
		case C.CUDA_NO_LIBRARY:
			complaints = append(complaints, C.GoString(&answer.text[0]))
		default:
			return 0, unusable(path, &answer)
		}
	}
	return 0, status.Errorf(status.Unavailable, "CUDA is not available (%s). The library comes with the NVIDIA "+
		"driver. In a container it comes from the host: start the container with GPU access, and include `compute` in "+
		"NVIDIA_DRIVER_CAPABILITIES",
		strings.Join(complaints, "; "))
}

func loadFrom(path string, answer *C.struct_cuda_load_answer) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	C.cuda_load(name, answer)
}

// unusable returns the error for a library that loaded but cannot be used.
func unusable(path string, answer *C.struct_cuda_load_answer) error {
	switch answer.state {
	case C.CUDA_TOO_OLD:
		return status.Errorf(status.Unavailable, "the NVIDIA driver is too old: %s supports CUDA %s, and gpuconf "+
			"needs %s or newer (driver 450 or newer). Update the driver",
			path, version(answer.version), version(C.OLDEST_CUDA))
	case C.CUDA_INCOMPLETE:
		return status.Errorf(status.Unavailable, "%s reports CUDA %s, but it lacks %s, which every NVIDIA driver "+
			"since CUDA %s has. Check that it belongs to the NVIDIA driver",
			path, version(answer.version), C.GoString(&answer.text[0]),
			version(C.OLDEST_CUDA))
	}
	if answer.result != 0 {
		return status.Errorf(status.Unavailable, "%s does not report its version: %w", path,
			startFailure(answer.result))
	}
	return status.Errorf(status.Unavailable, "%s is not a CUDA driver: it lacks cuDriverGetVersion", path)
}

// hints are the next step after a failure to start the driver.
var hints = map[gpu.Result]string{
	gpu.ErrorNotInitialized: "a process that was forked after its parent used CUDA cannot use CUDA; start it with " +
		"spawn",
	34: "this is the CUDA toolkit's stub library for linking, not a driver; remove its folder " +
		"(stubs) from LD_LIBRARY_PATH",
	46:                      "the GPU is busy or unavailable; see nvidia-smi",
	gpu.ErrorInvalidDevice:  "a GPU is present but cannot be used; see nvidia-smi and the kernel log",
	gpu.ErrorSystemNotReady: "the GPU fabric is not ready; check that nvidia-fabricmanager is running",
	gpu.ErrorSystemDriverMismatch: "the library and the kernel driver have different versions; " +
		"after a driver update, restart the machine; in a container, look for a second libcuda",
	804: "the compatibility library (cuda-compat) does not support this GPU or driver",
	gpu.ErrorUnknown: "check that the nvidia_uvm module is loaded and that this user can open /dev/nvidia*; " +
		"this error also occurs after a suspend",
}

// startFailure returns the error for a driver that does not start, with a hint if there is one.
func startFailure(result C.CUresult) error {
	failure := gpu.Result(result)
	if hint := hints[failure]; hint != "" {
		return status.Errorf(status.Unavailable, "%w: %s", failure, hint)
	}
	return failure
}
