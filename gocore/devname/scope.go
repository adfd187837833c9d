package devname

// FirstDevice is where a scope that is not inside another one starts from: the first device of the process, which
// is always a CPU.
const FirstDevice = "/job:localhost/replica:0/task:0/device:CPU:0"

// EnterScope gives the device name in force inside `with device(arg)`, outer being the one in force outside ("" for
// none). A nil arg is Python's None and means no device: placement is automatic again.
//
// Each part is inherited alone: "CPU" inside GPU:1 is CPU:1. "" outside of any scope is CPU:0. Whether the device
// exists, or whether F can read the name, is not looked at.
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
