// SPDX-License-Identifier: Apache-2.0

package devname

import (
	"strings"

	"gpuconf/gocore/base/status"
)

// MatchMemoryDevice returns the index of the one device that text names, parsed by F, else by L. devices are full names
// in the order of the device list. No match, several matches, and text that neither parser accepts are InvalidArgument
// errors with TensorFlow's texts.
func MatchMemoryDevice(devices []Name, text string) (int, error) {
	pattern, ok := ParseFullName(text)
	if !ok {
		pattern, ok = ParseLocalName(text)
	}
	if !ok {
		return 0, status.Errorf(status.InvalidArgument, "Failed parsing device name: '%s'. Note a valid device string "+
			"should at least contain a device type and a device index, like \"GPU:0\".", text)
	}
	match := -1
	for i, device := range devices {
		if !Compatible(pattern, device) {
			continue
		}
		if match >= 0 {
			return 0, status.Errorf(status.InvalidArgument,
				"Multiple devices match the provided string '%s': '%s' and '%s'.", text, devices[match], device)
		}
		match = i
	}
	if match < 0 {
		return 0, status.Errorf(status.InvalidArgument,
			"No matching devices found for '%s' (available: %s; device types are case-sensitive)%s", text,
			localNames(devices),
			meant(devices, text))
	}
	return match, nil
}

// meant returns a question for the names that PyTorch and others use: "cuda:0", "gpu:0".
func meant(devices []Name, text string) string {
	kind, index, _ := strings.Cut(strings.ToLower(text), ":")
	if kind != "cuda" && kind != "gpu" {
		return ""
	}
	for _, device := range devices {
		if name := localName(device); name == "GPU:"+index && name != text {
			return ". Did you mean '" + name + "'?"
		}
	}
	return ""
}

// localNames formats devices for an error: "CPU:0, GPU:0".
func localNames(devices []Name) string {
	texts := make([]string, len(devices))
	for i, device := range devices {
		texts[i] = localName(device)
	}
	return strings.Join(texts, ", ")
}

func localName(device Name) string { return strings.TrimPrefix(device.Local(), "/device:") }
