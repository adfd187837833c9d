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
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// Driver is what this package needs: the GPUs and their contexts.
type Driver interface {
	gpu.Driver
	gpu.Native
}

// Scratch allocates the memory that an operation needs besides its operands and its result, on the same GPU and for its
// default stream. free releases it.
type Scratch interface {
	Allocate(bytes uint64) (addr uint64, free func() error, err error)
}

// Library is cuBLAS on the GPUs of a driver. Its handles are destroyed with the contexts.
type Library struct {
	driver  Driver
	folders []string

	mu      sync.Mutex
	handles map[int]*handle // guarded by mu; by ordinal
}

// New returns a Library without loading anything. folders are where wheels install NVIDIA's libraries:
// ".../site-packages/nvidia".
func New(driver Driver, folders []string) *Library {
	return &Library{driver: driver, folders: folders, handles: map[int]*handle{}}
}

// On returns a gpu.Compute for a GPU, with scratch memory from a pool there.
func (l *Library) On(ordinal int, scratch Scratch) gpu.Compute {
	return compute{library: l, ordinal: ordinal, scratch: scratch}
}

// compute is the gpu.Compute of one logical GPU.
type compute struct {
	library *Library
	ordinal int
	scratch Scratch
}

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
	for _, candidate := range candidates(usable, l.folders) {
		if candidate.before != "" && !exists(candidate.path) {
			continue
		}
		var answer C.struct_cublas_load_answer
		candidate.load(&answer)
		switch text := C.GoString(&answer.text[0]); {
		case answer.state == C.CUBLAS_LOADED:
			v := answer.version
			loaded.version = fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
			return loaded.version, nil
		case answer.state == C.CUBLAS_INCOMPLETE:
			complaints = append(complaints,
				fmt.Sprintf("%s is not a cuBLAS library: it lacks %s", candidate.path, text))
		case text != "":
			complaints = append(complaints, text)
		}
	}
	return "", status.Errorf(status.Unavailable, "operations on a GPU need cuBLAS (%s): pip install '%s', or run them "+
		"on the CPU with gpuconf.device(\"CPU:0\")", strings.Join(complaints, "; "), extra(usable[0]))
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

// The major versions of cuBLAS.
const (
	oldestMajor = 11

	// The first version without kernels for GPUs before compute capability 7.5. Its wheel uses a folder named after the
	// version.
	major13 = 13
)

// majors returns the versions that the driver can run and that support all GPUs, newest first.
func majors(cudaVersion int, devices []gpu.Device) []int {
	newest := cudaVersion / 1000
	for _, d := range devices {
		if d.ComputeMajor < 7 || d.ComputeMajor == 7 && d.ComputeMinor < 5 {
			newest = min(newest, major13-1)
		}
	}
	var list []int
	for major := newest; major >= oldestMajor; major-- {
		list = append(list, major)
	}
	return list
}

// candidate is a library to try: a name that the loader resolves, or a path.
type candidate struct {
	before string // library to load first, "" for none
	path   string
	loaded bool // use it only if the process has already loaded it
}

func candidates(majors []int, folders []string) (list []candidate) {
	for _, major := range majors {
		list = append(list, candidate{path: soname(major), loaded: true})
	}
	for _, major := range majors {
		for _, folder := range folders {
			folder = filepath.Join(folder, wheelFolder(major), "lib")
			list = append(list, candidate{before: filepath.Join(folder, fmt.Sprintf("libcublasLt.so.%d", major)),
				path: filepath.Join(folder, soname(major))})
		}
	}
	for _, major := range majors {
		list = append(list, candidate{path: soname(major)})
	}
	return list
}

func soname(major int) string { return fmt.Sprintf("libcublas.so.%d", major) }

func wheelFolder(major int) string {
	if major >= major13 {
		return fmt.Sprintf("cu%d", major)
	}
	return "cublas"
}

// extra returns the name to pass to pip to install a version.
func extra(major int) string { return fmt.Sprintf("gpuconf[cublas-cu%d]", major) }

// Status is a cublasStatus_t other than success, used as an error value.
type Status int

// The values that gpuconf distinguishes; the numbers are cuBLAS's (cublas_api.h, cublasStatus_t).
const (
	NotInitialized Status = 1
	AllocFailed    Status = 3
	InvalidValue   Status = 7
	ArchMismatch   Status = 8
	NotSupported   Status = 15
)

// kinds maps each known Status to its name, its kind of error and a hint at the next step.
var kinds = map[Status]struct {
	name string
	code status.Code
	hint string
}{
	NotInitialized: {"NOT_INITIALIZED", status.Unavailable, ": its CUDA runtime failed to start. Check that the " +
		"NVIDIA driver is new enough for this version, and that the GPU has some memory left outside the pools"},
	AllocFailed: {"ALLOC_FAILED", status.ResourceExhausted, ": cuBLAS needs some GPU memory outside the pools, and " +
		"none is left. Lower the limits of the pools"},
	InvalidValue: {"INVALID_VALUE", status.Internal, ""},
	ArchMismatch: {"ARCH_MISMATCH", status.Unavailable, ": this version does not support the GPU. Install one that " +
		"does, or run the operation on the CPU with gpuconf.device(\"CPU:0\")"},
	11:           {"MAPPING_ERROR", status.Unknown, ""},
	13:           {"EXECUTION_FAILED", status.Unknown, ""},
	14:           {"INTERNAL_ERROR", status.Unknown, ""},
	NotSupported: {"NOT_SUPPORTED", status.Unimplemented, ""},
	16:           {"LICENSE_ERROR", status.Unknown, ""},
}

// Error returns cuBLAS's name and number, such as "CUBLAS_STATUS_ALLOC_FAILED (3)".
func (s Status) Error() string {
	if kind, ok := kinds[s]; ok {
		return fmt.Sprintf("CUBLAS_STATUS_%s (%d)", kind.name, int(s))
	}
	return fmt.Sprintf("CUBLAS_STATUS (%d)", int(s))
}

// failed returns the error for a Status: the version of cuBLAS, the operation, the Status, and the next step.
func (s Status) failed(version string, ordinal int, what string) error {
	return status.Errorf(kinds[s].code, "cuBLAS %s failed on GPU %d (%s): %w%s", version, ordinal, what, s,
		kinds[s].hint)
}
