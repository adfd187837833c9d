// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/gpu"
)

// Policy determines what happens if an eager operation's input is not in the memory that the operation works in. The
// zero Policy copies silently.
type Policy int

// The policies of set_device_policy.
const (
	Silent Policy = iota
	SilentForInt32
	Warn
	Explicit
)

var policyNames = [...]string{"silent", "silent_for_int32", "warn", "explicit"}

// ParsePolicy parses a policy's name.
func ParsePolicy(name string) (Policy, error) {
	for i, known := range policyNames {
		if name == known {
			return Policy(i), nil
		}
	}
	return Silent, status.Errorf(status.InvalidArgument, "'%s' is not a device policy", name)
}

// verdict is a policy's decision about one copy.
type verdict int

const (
	allow verdict = iota
	warn
	refuse
)

func (p Policy) verdict(dtype gpu.DType) verdict {
	switch {
	case p == Explicit, p == SilentForInt32 && dtype != gpu.Int32:
		return refuse
	case p == Warn:
		return warn
	}
	return allow
}
