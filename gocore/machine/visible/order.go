// SPDX-License-Identifier: Apache-2.0

package visible

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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
