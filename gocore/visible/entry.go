package visible

import (
	"fmt"
	"strings"
)

// entryKind is what a list is made of; its first entry decides.
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

// resolve finds the one GPU that entry names, as an index into devices. Otherwise problem says, as the end of a
// sentence about the entry, why there is none.
func (kind entryKind) resolve(entry string, order []int, devices []Device) (index int, problem string) {
	switch kind {
	case uuidKind:
		return resolveUUID(entry, devices)
	case migKind:
		return 0, "names a MIG instance, but this machine has none"
	default:
		return resolveIndex(entry, order)
	}
}

func resolveUUID(entry string, devices []Device) (index int, problem string) {
	if !strings.HasPrefix(entry, uuidPrefix) {
		if strings.HasPrefix(strings.TrimSpace(entry), uuidPrefix) {
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

// tooLarge stands for every number that no machine can have as an index, so that no value overflows.
const tooLarge = 1 << 30

// leadingNumber reads what strtol would: white space, a sign, digits, and ignores the rest. ok is false without a digit.
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

// plainIndex tells whether a person reads entry as an index, too: digits, with white space around them.
func plainIndex(entry string) bool {
	return strings.Trim(strings.TrimSpace(entry), "0123456789") == ""
}
