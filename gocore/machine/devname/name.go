// SPDX-License-Identifier: Apache-2.0

package devname

import (
	"strconv"
	"strings"

	"gpuconf/gocore/base/status"
)

// Name is a device name as used by placement and statistics: a device's full name, or a pattern in which any field may
// be unset. The zero Name matches everything. Unset fields are zero, so names can be compared with ==.
type Name struct {
	HasJob, HasReplica, HasTask, HasType, HasID bool // which fields are set

	Job     string // such as "localhost"
	Replica int32  // the number after "replica:"
	Task    int32  // the number after "task:"
	Type    string // such as "GPU"
	ID      int32  // the number among the devices of the type
}

// LocalDevice is the full name of a device of this process.
func LocalDevice(deviceType string, id int) Name {
	return Name{
		HasJob: true, HasReplica: true, HasTask: true, HasType: true, HasID: true,
		Job: "localhost", Type: deviceType, ID: int32(id),
	}
}

// String formats the fields that are set, in canonical order. A missing id is "*"; an id without a type is omitted.
func (n Name) String() string {
	var b strings.Builder
	if n.HasJob {
		b.WriteString("/job:" + n.Job)
	}
	if n.HasReplica {
		b.WriteString("/replica:" + strconv.Itoa(int(n.Replica)))
	}
	if n.HasTask {
		b.WriteString("/task:" + strconv.Itoa(int(n.Task)))
	}
	if n.HasType {
		b.WriteString("/device:" + n.Type + ":")
		if n.HasID {
			b.WriteString(strconv.Itoa(int(n.ID)))
		} else {
			b.WriteString("*")
		}
	}
	return b.String()
}

// Local returns the short name of a device of this process: "/device:GPU:0".
func (n Name) Local() string {
	return Name{HasType: n.HasType, Type: n.Type, HasID: n.HasID, ID: n.ID}.String()
}

// IsComplete reports whether every field is set: the name of one device.
func (n Name) IsComplete() bool {
	return n.HasJob && n.HasReplica && n.HasTask && n.HasType && n.HasID
}

// Compatible reports whether the names agree in every field that both set.
func Compatible(a, b Name) bool {
	return !(a.HasJob && b.HasJob && a.Job != b.Job) &&
		!(a.HasReplica && b.HasReplica && a.Replica != b.Replica) &&
		!(a.HasTask && b.HasTask && a.Task != b.Task) &&
		!(a.HasType && b.HasType && a.Type != b.Type) &&
		!(a.HasID && b.HasID && a.ID != b.ID)
}

// Matches reports whether device has the same value in every field that the pattern sets.
func (n Name) Matches(device Name) bool {
	return (!n.HasJob || device.HasJob && device.Job == n.Job) &&
		(!n.HasReplica || device.HasReplica && device.Replica == n.Replica) &&
		(!n.HasTask || device.HasTask && device.Task == n.Task) &&
		(!n.HasType || device.HasType && device.Type == n.Type) &&
		(!n.HasID || device.HasID && device.ID == n.ID)
}

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

// ParseFullName is parser F:
//
//	full := "/" | part*
//	part := "/job:" ("*" | word) | "/replica:" ("*" | digits) | "/task:" ("*" | digits)
//	      | "/device:" ("*" | word) [":" ("*" | digits)]
//	      | ("/cpu:" | "/CPU:" | "/gpu:" | "/GPU:") ("*" | digits)
//	word := letter (letter | digit | "_")*
//
// The empty string is a full name with no field set. Parts may repeat; the last one wins. "*" unsets a field.
func ParseFullName(text string) (Name, bool) {
	var n Name
	if text == "/" {
		return n, true
	}
	for text != "" {
		var ok bool
		if text, ok = n.part(text); !ok {
			return Name{}, false
		}
	}
	return n, true
}

// part parses one part at the start of text into n.
func (n *Name) part(text string) (rest string, ok bool) {
	prefix, rest, _ := strings.Cut(text, ":")
	switch prefix {
	case "/job":
		return field(rest, word, &n.HasJob, &n.Job)
	case "/replica":
		return field(rest, number, &n.HasReplica, &n.Replica)
	case "/task":
		return field(rest, number, &n.HasTask, &n.Task)
	case "/cpu", "/CPU":
		n.HasType, n.Type = true, "CPU"
	case "/gpu", "/GPU":
		n.HasType, n.Type = true, "GPU"
	case "/device":
		if rest, ok = field(rest, word, &n.HasType, &n.Type); !ok {
			return "", false
		}
		if !strings.HasPrefix(rest, ":") {
			n.HasID, n.ID = false, 0
			return rest, true
		}
		rest = rest[1:]
	default:
		return "", false
	}
	return field(rest, number, &n.HasID, &n.ID)
}

// ParseLocalName is parser L.
func ParseLocalName(text string) (Name, bool) {
	deviceType, rest, ok := word(text)
	if !ok || !strings.HasPrefix(rest, ":") {
		return Name{}, false
	}
	id, rest, ok := number(rest[1:])
	if !ok || rest != "" {
		return Name{}, false
	}
	return Name{HasType: true, Type: deviceType, HasID: true, ID: id}, true
}

// field parses "*" (the field becomes unset) or a value at the start of text.
func field[T any](text string, read func(string) (T, string, bool), has *bool, value *T) (rest string, ok bool) {
	var zero T
	if strings.HasPrefix(text, "*") {
		*has, *value = false, zero
		return text[1:], true
	}
	*has = true
	*value, rest, ok = read(text)
	return rest, ok
}

// word parses a letter followed by letters, digits and underscores.
func word(text string) (value, rest string, ok bool) {
	end := 0
	for end < len(text) && (isLetter(text[end]) || end > 0 && (isDigit(text[end]) || text[end] == '_')) {
		end++
	}
	return text[:end], text[end:], end > 0
}

// number parses digits as 64 bits, fails if they overflow, and keeps the low 32 bits: "4294967296" is 0.
func number(text string) (value int32, rest string, ok bool) {
	var v uint64
	end := 0
	for ; end < len(text) && isDigit(text[end]); end++ {
		digit := uint64(text[end] - '0')
		if v > (1<<64-1-digit)/10 {
			return 0, "", false
		}
		v = v*10 + digit
	}
	return int32(v), text[end:], end > 0
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
