// SPDX-License-Identifier: Apache-2.0

package devname

// FirstDevice is the default outer device of a scope that is not nested: the first device of the process, which is
// always a CPU.
const FirstDevice = "/job:localhost/replica:0/task:0/device:CPU:0"

// EnterScope returns the device name in effect inside `with device(arg)`. outer is the name in effect outside, "" for
// none. A nil arg is Python's None: no device, so placement is automatic again.
//
// Each part is inherited separately: "CPU" inside GPU:1 is CPU:1. "" outside any scope is CPU:0. EnterScope does not
// check whether the device exists or whether F can parse the name.
func EnterScope(outer string, arg *string) (string, error) {
	if arg == nil {
		return "", nil
	}
	inner, err := ParseSpec(*arg)
	if err != nil {
		return "", err
	}
	if outer == "" {
		outer = FirstDevice
	}
	base, err := ParseSpec(outer)
	if err != nil {
		return "", err
	}
	return base.Override(inner).String(), nil
}
