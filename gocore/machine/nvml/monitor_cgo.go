// SPDX-License-Identifier: Apache-2.0

//go:build cgo && linux && (amd64 || arm64)

package nvml

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "trampolines.h"
import "C"

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// monitor is a gpu.Monitor over go-nvml.
type monitor struct {
	lib  nvml.Interface
	host Host
	done func() // called after Close

	mu     sync.RWMutex // held for reading by every call, for writing by Close
	closed bool         // guarded by mu
}

var _ gpu.Monitor = (*monitor)(nil)

// Over initializes NVML through lib and returns a Monitor. NVML counts its users, so any number of Monitors may be open
// at once.
func Over(lib nvml.Interface, host Host) (gpu.Monitor, error) { return over(lib, host, func() {}) }

func over(lib nvml.Interface, host Host, done func()) (gpu.Monitor, error) {
	if err := failure(lib.Init(), "nvmlInit"); err != nil {
		return nil, err
	}
	return &monitor{lib: lib, host: host, done: done}, nil
}

// enter begins a call; leave ends it, unless there is an error.
func (m *monitor) enter() (leave func(), err error) {
	m.mu.RLock()
	if m.closed {
		m.mu.RUnlock()
		return nil, status.Errorf(status.FailedPrecondition, "the monitor is closed")
	}
	return m.mu.RUnlock, nil
}

// Close shuts down NVML for this Monitor. The library is unloaded after the last one, unless other code has loaded it.
func (m *monitor) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	defer m.done()
	return failure(m.lib.Shutdown(), "nvmlShutdown")
}

// find returns the handle of a card or an instance.
func (m *monitor) find(uuid string) (nvml.Device, error) {
	device, ret := m.lib.DeviceGetHandleByUUID(uuid)
	switch ret {
	case nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_NOT_FOUND: // a malformed UUID, and an unknown one
		return nil, status.Errorf(status.NotFound, "unknown UUID %q: NVML lists no such GPU or MIG instance for "+
			"this process", uuid)
	}
	return device, failure(ret, "nvmlDeviceGetHandleByUUID "+uuid)
}

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

// System returns the driver's version, and CUDA's if the driver reports it.
func (m *monitor) System() (gpu.System, error) {
	leave, err := m.enter()
	if err != nil {
		return gpu.System{}, err
	}
	defer leave()
	driver, ret := m.lib.SystemGetDriverVersion()
	if err := failure(ret, "nvmlSystemGetDriverVersion"); err != nil {
		return gpu.System{}, err
	}
	// Not _v2, which loads libcuda and fails without it.
	cuda, ret := m.lib.SystemGetCudaDriverVersion()
	if err := failure(ret, "nvmlSystemGetCudaDriverVersion"); status.CodeOf(err) == status.Unimplemented {
		cuda = 0
	} else if err != nil {
		return gpu.System{}, err
	}
	return gpu.System{
		DriverVersion: driver,
		CUDAMajor:     cuda / 1000, // 12040 is 12.4
		CUDAMinor:     cuda % 1000 / 10,
		HostPIDs:      m.host.PIDNamespace,
	}, nil
}

// Host describes the environment of the process. NVML does not report it, but it affects how to interpret what NVML
// reports.
type Host struct {
	WSL          bool // Windows Subsystem for Linux: no processes are listed
	PIDNamespace bool // PIDs in this process's namespace differ from the host's
}

// thisHost returns the host that the process runs on.
func thisHost() Host { return ReadHost(os.DirFS("/")) }

// firstPIDNamespace is the initial PID namespace of every Linux kernel; its number is part of the kernel's interface
// (PROC_PID_INIT_INO).
const firstPIDNamespace = "pid:[4026531836]"

// ReadHost reads a host's properties from its root folder. A property that cannot be read is false.
func ReadHost(root fs.FS) Host {
	release, _ := fs.ReadFile(root, "proc/sys/kernel/osrelease")
	_, err := fs.Stat(root, "dev/dxg")
	namespace, _ := fs.ReadLink(root, "proc/self/ns/pid")
	return Host{
		WSL:          err == nil || strings.Contains(strings.ToLower(string(release)), "microsoft"),
		PIDNamespace: namespace != "" && namespace != firstPIDNamespace,
	}
}

// Result is an nvmlReturn_t other than success, used as an error value. Success is a nil error, never a Result.
type Result nvml.Return

// answers maps each value to its name, its kind of error and its meaning for the caller, with the next step if there is
// one.
var answers = map[nvml.Return]struct {
	name    string
	code    status.Code
	meaning string
}{
	nvml.ERROR_UNINITIALIZED: {"UNINITIALIZED", status.FailedPrecondition,
		"NVML was not started, or was shut down by other code"},
	nvml.ERROR_INVALID_ARGUMENT: {"INVALID_ARGUMENT", status.InvalidArgument, "an argument is invalid"},
	nvml.ERROR_NOT_SUPPORTED: {"NOT_SUPPORTED", status.Unimplemented,
		"this GPU or its driver does not support the query"},
	nvml.ERROR_NO_PERMISSION: {"NO_PERMISSION", status.Unavailable,
		"this user has no permission; check the permissions of /dev/nvidiactl and /dev/nvidia0, or " +
			"start the container with access to the GPU"},
	nvml.ERROR_NOT_FOUND: {"NOT_FOUND", status.NotFound, "NVML did not find the object"},
	nvml.ERROR_DRIVER_NOT_LOADED: {"DRIVER_NOT_LOADED", status.Unavailable,
		"the NVIDIA kernel driver is not loaded; run nvidia-smi on the host for details"},
	nvml.ERROR_TIMEOUT: {"TIMEOUT", status.Unavailable, "the driver did not answer in time; try again"},
	nvml.ERROR_LIBRARY_NOT_FOUND: {"LIBRARY_NOT_FOUND", status.Unavailable,
		"NVML, or a library that it needs, cannot be loaded"},
	nvml.ERROR_FUNCTION_NOT_FOUND: {"FUNCTION_NOT_FOUND", status.Unimplemented,
		"this driver is too old to have the function; update the driver"},
	nvml.ERROR_GPU_IS_LOST: {"GPU_IS_LOST", status.Unavailable,
		"the GPU fell off the bus; reset it or restart the machine"},
	nvml.ERROR_RESET_REQUIRED: {"RESET_REQUIRED", status.Unavailable, "the GPU needs a reset: nvidia-smi --gpu-reset"},
	nvml.ERROR_OPERATING_SYSTEM: {"OPERATING_SYSTEM", status.Unavailable,
		"the operating system blocks access to the GPU, for example by a container's device rules"},
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: {"LIB_RM_VERSION_MISMATCH", status.Unavailable,
		"the driver's library and the kernel driver have different versions, for example after an update; restart " +
			"the machine, or, in a container, the container"},
	nvml.ERROR_MEMORY: {"MEMORY", status.ResourceExhausted, "the host has no memory left for NVML"},
	nvml.ERROR_INSUFFICIENT_RESOURCES: {"INSUFFICIENT_RESOURCES", status.ResourceExhausted,
		"the driver has run out of something other than memory"},
	nvml.ERROR_NOT_READY:     {"NOT_READY", status.Unavailable, "the system is still starting; try again"},
	nvml.ERROR_GPU_NOT_FOUND: {"GPU_NOT_FOUND", status.NotFound, "the driver found no GPU"},
	nvml.ERROR_UNKNOWN:       {"UNKNOWN", status.Unknown, "the driver failed without giving a reason; check dmesg"},
}

// Error returns NVML's name and number, such as "NVML_ERROR_NO_PERMISSION (4)".
func (r Result) Error() string {
	name := "NVML_ERROR"
	if answer, ok := answers[nvml.Return(r)]; ok {
		name += "_" + answer.name
	}
	return fmt.Sprintf("%s (%d)", name, int(r))
}

// failure returns the error for a call that returned r; nil for success. call is the function's name and the object
// that it was called for.
func failure(r nvml.Return, call string) error {
	if r == nvml.SUCCESS {
		return nil
	}
	answer, ok := answers[r]
	if !ok {
		return status.Errorf(status.Unknown, "%s: %w", call, Result(r))
	}
	return status.Errorf(answer.code, "%s: %w: %s", call, Result(r), answer.meaning)
}
