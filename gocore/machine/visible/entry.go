// SPDX-License-Identifier: Apache-2.0

package visible

import (
	"fmt"
	"slices"
	"strings"
)

// entryKind is the kind of a list's entries; the first entry determines it.
type entryKind int

const (
	indexKind entryKind = iota
	uuidKind
	migKind
)

const (
	uuidPrefix = "GPU-"
	migPrefix  = "MIG-"
)

func kindOf(entry string) entryKind {
	switch {
	case strings.HasPrefix(entry, uuidPrefix):
		return uuidKind
	case strings.HasPrefix(entry, migPrefix):
		return migKind
	default:
		return indexKind
	}
}

// resolve returns the GPU that entry names, as an index into devices. If there is none, problem is the predicate of a
// sentence about the entry that says why.
func (kind entryKind) resolve(entry string, order []int, devices []Device) (index int, problem string) {
	switch kind {
	case uuidKind:
		return resolveUUID(entry, uuidPrefix, devices)
	case migKind:
		if !slices.ContainsFunc(devices, func(d Device) bool { return strings.HasPrefix(d.UUID, migPrefix) }) {
			return 0, "names a MIG instance, but this machine has none"
		}
		return resolveUUID(entry, migPrefix, devices)
	default:
		return resolveIndex(entry, order)
	}
}

func resolveUUID(entry, prefix string, devices []Device) (index int, problem string) {
	if !strings.HasPrefix(entry, prefix) {
		if strings.HasPrefix(strings.TrimSpace(entry), prefix) {
			return 0, "has white space before the UUID"
		}
		return 0, "is not a UUID, but the first entry is"
	}
	matches := 0
	for i, device := range devices {
		if strings.HasPrefix(device.UUID, entry) {
			index = i
			matches++
		}
	}
	switch matches {
	case 0:
		return 0, "does not match any GPU's UUID"
	case 1:
		return index, ""
	default:
		return 0, fmt.Sprintf("matches the UUIDs of %d GPUs", matches)
	}
}

func resolveIndex(entry string, order []int) (index int, problem string) {
	number, ok := leadingNumber(entry)
	switch {
	case !ok && kindOf(strings.TrimSpace(entry)) != indexKind:
		return 0, "is a UUID in a list of indices, or has leading white space"
	case !ok && strings.TrimSpace(entry) == "all":
		return 0, "is not an index (unset the variable to see all GPUs)"
	case !ok:
		return 0, "is not an index"
	case number < 0:
		return 0, "is negative"
	case number >= len(order):
		return 0, fmt.Sprintf("is out of range: this machine has %s", plural(len(order), "GPU", "GPUs"))
	}
	return order[number], ""
}

// tooLarge replaces larger numbers, which are not a valid index on any machine, so that no value overflows.
const tooLarge = 1 << 30

// leadingNumber parses text like strtol: white space, a sign and digits; the rest is ignored. ok is false without a
// digit.
func leadingNumber(text string) (number int, ok bool) {
	text = strings.TrimLeft(text, " \t\n\v\f\r")
	negative := strings.HasPrefix(text, "-")
	if negative || strings.HasPrefix(text, "+") {
		text = text[1:]
	}
	for i := 0; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		number = min(number*10+int(text[i]-'0'), tooLarge)
		ok = true
	}
	if negative {
		number = -number
	}
	return number, ok
}

// plainIndex reports whether entry is only digits, with optional white space around them.
func plainIndex(entry string) bool {
	return strings.Trim(strings.TrimSpace(entry), "0123456789") == ""
}
