// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package nvml

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "trampolines.h"
import "C"

import (
	"strings"
	"sync"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// candidates are the names of the library, in the order in which they are tried. The loader finds the first where
// the driver's package installed it. The others, of WSL and NixOS, are outside the loader's search path.
// libnvidia-ml.so is not a candidate: it is the toolkit's stub for linking.
var candidates = []string{
	"libnvidia-ml.so.1",
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",
	"/run/opengl-driver/lib/libnvidia-ml.so.1",
}

// library is process-wide: the table of trampolines, and go-nvml's state, which is in package variables. All Monitors
// share one instance, and go-nvml counts its users.
var library struct {
	sync.Mutex
	instance nvml.Interface // nil while the table is empty
	users    int            // open Monitors of the instance, and those that are being opened
}

// Open loads and initializes NVML and returns a Monitor, which the caller must close. Unless it returns an error of
// kind Unavailable, an NVIDIA driver is present.
func Open() (gpu.Monitor, error) {
	instance, err := enter()
	if err != nil {
		return nil, err
	}
	m, err := over(instance, thisHost(), func() { leave(true) })
	if err != nil {
		leave(false)
		return nil, err
	}
	return m, nil
}

// leave unloads the library after its last user: a process that has it cannot simulate GPUs. go-nvml has it loaded,
// too, and counts NVMLs that did not start, which it forgets after a shutdown that succeeds.
func leave(started bool) {
	library.Lock()
	defer library.Unlock()
	if library.users--; library.users > 0 {
		return
	}
	if !started {
		C.trampolines_forget_shutdown()
		library.instance.Shutdown()
	}
	library.instance = nil
	C.trampolines_unload()
}

// enter fills the table from the first candidate that can be loaded, unless it is filled, and counts a user. After a
// failure a later call tries again.
func enter() (nvml.Interface, error) {
	library.Lock()
	defer library.Unlock()
	if library.instance != nil {
		library.users++
		return library.instance, nil
	}
	var complaints []string
	for _, path := range candidates {
		complaint := fillTable(path)
		if complaint == "" {
			library.instance, library.users = nvml.New(nvml.WithLibraryPath(path)), 1
			return library.instance, nil
		}
		complaints = append(complaints, complaint)
	}
	return nil, status.Errorf(status.Unavailable, "NVML is not available (%s). The library comes with the NVIDIA "+
		"driver. In a container it comes from the host: start the container with GPU access, and include `utility` in "+
		"NVIDIA_DRIVER_CAPABILITIES", strings.Join(complaints, "; "))
}

// fillTable returns the loader's message, or "" on success.
func fillTable(path string) string {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var complaint [1024]C.char
	if C.trampolines_load(name, &complaint[0], C.size_t(len(complaint))) == 1 {
		return ""
	}
	return C.GoString(&complaint[0])
}
