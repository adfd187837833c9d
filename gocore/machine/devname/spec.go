// SPDX-License-Identifier: Apache-2.0

package devname

import (
	"cmp"
	"strings"

	"gpuconf/gocore/base/status"
)

// Spec is a device name as in Python's DeviceSpec: up to five parts, each nil if missing. Job and Type are free text;
// an empty string is not missing.
type Spec struct {
	Job     *string `json:"job"`          // such as "localhost"
	Replica *Int    `json:"replica"`      // the number after "replica:"
	Task    *Int    `json:"task"`         // the number after "task:"
	Type    *string `json:"device_type"`  // such as "GPU"
	Index   *Int    `json:"device_index"` // the number among the devices of the type
}

// specTypes are the device types that P accepts as bare names, in any case.
var specTypes = map[string]bool{"CPU": true, "GPU": true, "TPU": true, "CUSTOM": true, "EPU": true}

// ParseSpec is parser P. Parts come in any order, slashes may be missing or doubled, and a later job, replica or
// task replaces an earlier one; a second device type is an error. All errors are InvalidArgument.
func ParseSpec(text string) (Spec, error) {
	var spec Spec
	var replica, task *string // not numbers yet: P parses them after all parts
	for _, part := range strings.Split(text, "/") {
		field := strings.Split(part, ":")
		switch {
		case len(field) == 2 && field[0] == "job":
			spec.Job = &field[1]
		case len(field) == 2 && field[0] == "replica":
			replica = &field[1]
		case len(field) == 2 && field[0] == "task":
			task = &field[1]
		case len(field) <= 2 && specTypes[strings.ToUpper(field[0])]:
			if err := spec.setDevice(strings.ToUpper(field[0]), field[1:], text); err != nil {
				return Spec{}, err
			}
		case len(field) == 3 && field[0] == "device":
			if err := spec.setDevice(field[1], field[2:], text); err != nil {
				return Spec{}, err
			}
		case field[0] != "":
			return Spec{}, status.Errorf(status.InvalidArgument,
				"Unknown attribute '%s' is encountered while parsing the device spec: '%s'.%s", field[0], text,
				meantGPU(field))
		}
	}
	var err error
	if spec.Replica, err = parseOptionalInt(replica); err != nil {
		return Spec{}, err
	}
	if spec.Task, err = parseOptionalInt(task); err != nil {
		return Spec{}, err
	}
	// Only these two spellings are changed to upper case, so "/device:Gpu:0" keeps a type that no device has.
	if spec.Type != nil && (*spec.Type == "cpu" || *spec.Type == "gpu") {
		upper := strings.ToUpper(*spec.Type)
		spec.Type = &upper
	}
	return spec, nil
}

// setDevice sets the type, and the index if present: index is empty or holds the text after the last colon.
func (s *Spec) setDevice(deviceType string, index []string, text string) error {
	if s.Type != nil {
		return status.Errorf(status.InvalidArgument,
			"Multiple device types are not allowed while parsing the device spec: %s.", text)
	}
	s.Type = &deviceType
	if len(index) == 0 || index[0] == "*" {
		return nil
	}
	number, err := ParseInt(index[0])
	s.Index = &number
	return err
}

// String formats the parts in canonical order. A missing index is "*"; an index without a type is omitted.
func (s Spec) String() string {
	var b strings.Builder
	if s.Job != nil {
		b.WriteString("/job:" + *s.Job)
	}
	if s.Replica != nil {
		b.WriteString("/replica:" + string(*s.Replica))
	}
	if s.Task != nil {
		b.WriteString("/task:" + string(*s.Task))
	}
	if s.Type != nil {
		index := "*"
		if s.Index != nil {
			index = string(*s.Index)
		}
		b.WriteString("/device:" + *s.Type + ":" + index)
	}
	return b.String()
}

// Override returns s with every part that over has replaced by over's. This is DeviceSpec.make_merged_spec.
func (s Spec) Override(over Spec) Spec {
	return Spec{Job: cmp.Or(over.Job, s.Job), Replica: cmp.Or(over.Replica, s.Replica), Task: cmp.Or(over.Task, s.Task),
		Type: cmp.Or(over.Type, s.Type), Index: cmp.Or(over.Index, s.Index)}
}

// meantGPU returns a question for PyTorch's name of a device, split at its colon, and for one without a colon: cuda:1,
// gpu0.
func meantGPU(field []string) string {
	kind := strings.TrimRight(field[0], "0123456789")
	index := field[0][len(kind):]
	if len(field) == 2 && index == "" {
		index = field[1]
	} else if len(field) > 1 {
		return ""
	}
	if word := strings.ToUpper(kind); word != "CUDA" && word != "GPU" {
		return ""
	}
	return " Did you mean 'GPU:" + cmp.Or(index, "0") + "'?"
}

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
