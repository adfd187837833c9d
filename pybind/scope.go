// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/devname"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
)

// MergeScope returns the device name of a scope: the fields of argument override those of the outer scope ("" for none).
func MergeScope(outer string, argument string) (name string, err error) {
	defer process.Gate(&err)
	return devname.EnterScope(outer, &argument)
}

// EnterScope sets the scope of the calling thread, where the C entry points read it. It returns the number of the logical
// GPU that name selects, cabi.NoScope if it selects none, or cabi.ScopeMissing if the GPU is unknown.
func EnterScope(name string) (number int64, err error) {
	defer process.Gate(&err)
	generation := process.Shared().Generation() // read before the devices: a later reset also invalidates this scope
	number = cabi.NoScope
	if name != "" {
		m, err := manager()
		if err != nil {
			return cabi.NoScope, err
		}
		number = scopeNumber(m.LogicalGPUs(), name)
	}
	cabi.SetScope(generation, number)
	return number, nil
}

// scopeNumber returns the number of the logical GPU that a scope's name selects; gpus is the number of logical GPUs.
func scopeNumber(gpus int, name string) int64 {
	parsed, ok := devname.ParseFullName(name)
	if !ok || !parsed.HasType || parsed.Type != "GPU" {
		if ok && parsed.Type == "CPU" {
			return cabi.NoScope
		}
		return cabi.ScopeMissing
	}
	for i := range gpus {
		if parsed.Matches(devname.LocalDevice("GPU", i)) {
			return int64(i)
		}
	}
	return cabi.ScopeMissing
}
