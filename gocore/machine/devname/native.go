// SPDX-License-Identifier: Apache-2.0

package devname

import "strings"

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
