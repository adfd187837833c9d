// SPDX-License-Identifier: Apache-2.0

package visible

import (
	"fmt"
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
	if hidesAll(value) {
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
		if kind == indexKind && !plainIndex(entry) {
			loose = append(loose, fmt.Sprintf("%s is read as %d", describe(position, entries), find(order, index)))
		}
		if first := find(indices, index); first >= 0 {
			return []int{}, fmt.Sprintf("%s and %s name the same GPU, so CUDA hides all GPUs; list each GPU once",
				describe(first, entries), describe(position, entries))
		}
		indices = append(indices, index)
	}
	return indices, joinComplaints(strings.Join(loose, ", "), complaint)
}

// hidesAll reports whether value is a conventional way to hide every GPU. The Slurm scheduler sets NoDevFiles.
func hidesAll(value string) bool {
	return value == "" || value == "-1" || value == "NoDevFiles"
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

func joinComplaints(parts ...string) string {
	var said []string
	for _, part := range parts {
		if part != "" {
			said = append(said, part)
		}
	}
	return strings.Join(said, "; ")
}

func find(list []int, value int) int {
	for i, v := range list {
		if v == value {
			return i
		}
	}
	return -1
}
