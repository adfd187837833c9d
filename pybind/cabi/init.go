// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cabi

import "C"

import (
	"strings"
	"unsafe"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/tf/config"
	"gpuconf/pybind/process"
)

// gcgo_init lists the devices and creates the logical GPUs, unless they exist, with the variables of the caller's
// environment: Go's own copy is that of the start of the process. lines are for the user; the caller frees them.
//
//export gcgo_init
func gcgo_init(environment, lines **C.char) (done C.int) {
	var err error
	defer gate(&err)
	env := environ(environment)
	if renamed := env.Rename(); len(renamed) > 0 {
		*lines = C.CString("gpuconf: " + strings.Join(renamed, "\ngpuconf: ") + "\n")
	}
	if err = initialize(env); err != nil {
		return 0
	}
	return 1
}

func initialize(env config.Env) error {
	p := process.Shared()
	if _, _, err := p.Enumerate(env); err != nil {
		return err
	}
	m, err := p.Initialize(env, "gpuconf_init()")
	if err != nil {
		return err
	}
	logical, err := m.LogicalDevices()
	if err != nil {
		return err
	}
	for _, d := range logical {
		if d.Type == "GPU" {
			return nil
		}
	}
	return status.Errorf(status.NotFound, "there is no GPU: %s. GPUCONF_SIMULATE=H100-80GB simulates one", m.WhyNoGPU())
}

// environ reads a list of NAME=VALUE that ends with NULL.
func environ(list **C.char) config.Env {
	env := config.Env{}
	for ; list != nil && *list != nil; list = (**C.char)(unsafe.Add(unsafe.Pointer(list), unsafe.Sizeof(*list))) {
		if name, value, found := strings.Cut(C.GoString(*list), "="); found {
			env[name] = strings.ToValidUTF8(value, "?")
		}
	}
	return env
}
