package pybind

import (
	"gpuconf/gocore/devname"
	"gpuconf/pybind/cabi"
	"gpuconf/pybind/process"
)

// MergeScope gives the device name in force inside a scope: the argument's fields over those of the scope outside ("" for none).
func MergeScope(outer string, argument string) (name string, err error) {
	defer process.Gate(&err)
	return devname.EnterScope(outer, &argument)
}

// EnterScope makes name the scope of the calling thread, where the C entry points read it. It gives the number of the logical
// GPU that name means, cabi.NoScope where it means none, cabi.ScopeMissing where that GPU is not there.
func EnterScope(name string) (number int64, err error) {
	defer process.Gate(&err)
	generation := process.Shared().Generation() // before the devices: a reset from here on leaves this scope, too
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

// scopeNumber finds the logical GPU that a scope's name means, among so many.
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
