// SPDX-License-Identifier: Apache-2.0

package visible

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Device identifies a GPU of the machine for the rules.
type Device struct {
	UUID     string // "GPU-" and 32 hex digits grouped 8-4-4-4-12; "MIG-" and such for an instance
	PCIBusID string // "0000:17:00.0"
	Speed    uint64 // greater is faster; only the order matters
}

// Env holds the values of the two environment variables; nil if not set.
type Env struct {
	VisibleDevices *string // CUDA_VISIBLE_DEVICES
	DeviceOrder    *string // CUDA_DEVICE_ORDER
}

// Select returns the visible devices as indices into devices, in CUDA's order, and a notice for everything in env that
// was ignored. It never fails: invalid entries hide GPUs, as in CUDA.
//
// The indices are valid and distinct.
func Select(env Env, devices []Device) (indices []int, notices []string) {
	order, notices := deviceOrder(env.DeviceOrder, devices)
	if env.VisibleDevices == nil {
		return order, notices
	}
	value := *env.VisibleDevices
	indices, complaint := selectList(value, order, devices)
	if complaint != "" {
		notices = append(notices, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%q: %s", value, complaint))
	}
	return indices, notices
}

// selectList applies rules 2 to 9. The complaint, if any, is a single text about the whole value.
func selectList(value string, order []int, devices []Device) (indices []int, complaint string) {
	indices = []int{}
	if value == "" || value == "-1" || value == "NoDevFiles" { // Slurm sets the last one
		return indices, ""
	}
	entries := strings.Split(value, ",")
	kind := kindOf(entries[0])
	var loose []string // indices followed by other text
	for position, entry := range entries {
		index, problem := kind.resolve(entry, order, devices)
		if problem != "" {
			complaint = endOfList(position, entries, problem, len(indices))
			break
		}
		if kind == indexKind && strings.Trim(strings.TrimSpace(entry), "0123456789") != "" {
			loose = append(loose, fmt.Sprintf("%s is read as %d", describe(position, entries),
				slices.Index(order, index)))
		}
		if first := slices.Index(indices, index); first >= 0 {
			return []int{}, fmt.Sprintf("%s and %s name the same GPU, so CUDA hides all GPUs; list each GPU once",
				describe(first, entries), describe(position, entries))
		}
		indices = append(indices, index)
	}
	texts := []string{strings.Join(loose, ", "), complaint}
	return indices, strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

// endOfList describes why the entry at position ended the list, and what is ignored as a result.
func endOfList(position int, entries []string, problem string, seen int) string {
	text := fmt.Sprintf("%s %s", describe(position, entries), problem)
	if rest := len(entries) - position - 1; rest > 0 {
		text += fmt.Sprintf("; it and the %s after it are ignored", plural(rest, "entry", "entries"))
	} else {
		text += "; it is ignored"
	}
	if seen == 0 {
		text += ", so no GPU is visible"
	}
	return text
}

func describe(position int, entries []string) string {
	return fmt.Sprintf("entry %d (%q)", position+1, entries[position])
}

func plural(n int, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, many)
}

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

// deviceOrder returns all GPUs in the order that value selects (rule 10).
func deviceOrder(value *string, devices []Device) (order []int, notices []string) {
	byPCI := func(a, b int) int { return comparePCI(devices[a].PCIBusID, devices[b].PCIBusID) }
	order = make([]int, len(devices))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, byPCI)
	if value != nil && *value == "PCI_BUS_ID" {
		return order, nil
	}
	if value != nil && *value != "" && *value != "FASTEST_FIRST" {
		notices = append(notices, fmt.Sprintf(
			"CUDA_DEVICE_ORDER=%q is neither PCI_BUS_ID nor FASTEST_FIRST; using the default, FASTEST_FIRST", *value))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(devices[b].Speed, devices[a].Speed) })
	return order, notices
}

// comparePCI compares "domain:bus:device.function" numerically, since domains have four digits or eight. Other strings
// sort last, in lexical order.
func comparePCI(a, b string) int {
	keyA, okA := pciKey(a)
	keyB, okB := pciKey(b)
	switch {
	case okA && okB:
		return slices.Compare(keyA, keyB)
	case okA:
		return -1
	case okB:
		return 1
	default:
		return strings.Compare(a, b)
	}
}

func pciKey(id string) (key []uint64, ok bool) {
	fields := strings.FieldsFunc(id, func(r rune) bool { return r == ':' || r == '.' })
	if len(fields) != 4 {
		return nil, false
	}
	for _, field := range fields {
		number, err := strconv.ParseUint(field, 16, 64)
		if err != nil {
			return nil, false
		}
		key = append(key, number)
	}
	return key, true
}
