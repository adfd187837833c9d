// SPDX-License-Identifier: Apache-2.0

package pybind

import (
	"gpuconf/gocore/machine/devname"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
)

// MergeScope returns the device name of a scope: the fields of argument override those of the outer scope ("" for
// none).
func MergeScope(outer string, argument string) (name string, err error) {
	defer process.Gate(&err)
	return devname.EnterScope(outer, &argument)
}

// ScopeNumber returns the number of the logical GPU that a scope's name selects, cabi.NoScope if it selects none, or
// cabi.ScopeMissing if the GPU is unknown.
func ScopeNumber(name string) (number int64, err error) {
	defer process.Gate(&err)
	if name == "" {
		return cabi.NoScope, nil
	}
	m, err := manager()
	if err != nil {
		return cabi.NoScope, err
	}
	return scopeNumber(m.LogicalGPUs(), name), nil
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
