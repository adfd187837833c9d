package visible_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/visible"
)

// four GPUs whose order by bus, by speed and in the list all differ. By bus: 2 0 3 1. By speed: 1 3 0 2.
var four = []visible.Device{
	{UUID: "GPU-9942190a-aa31-4ff1-4aa9-c388d80f85f1", PCIBusID: "0000:41:00.0", Speed: 20},
	{UUID: "GPU-9e8d35e3-a134-0fdd-0e01-23811fdbd293", PCIBusID: "0000:C1:00.0", Speed: 40},
	{UUID: "GPU-e429a63e-c61c-4795-b757-5132caeb8e70", PCIBusID: "0000:07:00.0", Speed: 10},
	{UUID: "GPU-eee1dfbc-0a0f-6ad8-5ff6-dc942a8b9d98", PCIBusID: "0000:81:00.0", Speed: 30},
}

// alike returns n GPUs of one speed, in the order of their buses.
func alike(n int) []visible.Device {
	const hex = "0123456789abcdef"
	devices := make([]visible.Device, n)
	for i := range devices {
		devices[i] = visible.Device{
			UUID:     "GPU-" + hex[i:i+1] + "0000000-0000-0000-0000-000000000000",
			PCIBusID: "0000:" + hex[i:i+1] + "0:00.0",
			Speed:    1,
		}
	}
	return devices
}

func text(s string) *string { return &s }

func TestIndices(t *testing.T) {
	for _, row := range []struct {
		name  string
		value *string
		want  []int
		says  string // the notice, or ""
	}{
		{"not set is all", nil, []int{0, 1, 2, 3}, ""},
		{"empty is none", text(""), []int{}, ""},
		{"-1 is none", text("-1"), []int{}, ""},
		{"what Slurm writes is none", text("NoDevFiles"), []int{}, ""},
		{"one", text("2"), []int{2}, ""},
		{"the order is the list's", text("3,0,2"), []int{3, 0, 2}, ""},
		{"white space before and after", text(" 1 ,\t0"), []int{1, 0}, ""},
		{"all of them", text("0,1,2,3"), []int{0, 1, 2, 3}, ""},
		{"leading zeros", text("01,000"), []int{1, 0}, ""},

		{"the manual's example", text("0,2,-1,1"), []int{0, 2},
			`entry 3 ("-1") is negative; it and the 1 entry after it are ignored`},
		{"out of range ends the list", text("1,4,0"), []int{1},
			`entry 2 ("4") is out of range: this machine has 4 GPUs; it and the 1 entry after`},
		{"out of range first", text("4"), []int{},
			`is out of range: this machine has 4 GPUs; it is ignored, so no GPU is visible`},
		{"beyond 64 bits", text("0,18446744073709551616"), []int{0}, "is out of range: this machine has 4 GPUs"},
		{"below 64 bits", text("0,-18446744073709551616"), []int{0}, "is negative"},
		{"an empty entry ends the list", text("0,,1"), []int{0}, `entry 2 ("") is not an index`},
		{"a comma at the end", text("0,1,"), []int{0, 1}, `entry 3 ("") is not an index; it is ignored`},
		{"a comma alone", text(","), []int{}, "so no GPU is visible"},
		{"blanks alone", text("  "), []int{}, "so no GPU is visible"},
		{"a word ends the list", text("3,2,two,1"), []int{3, 2}, `entry 3 ("two") is not an index`},
		{"a word first", text("one,0"), []int{},
			`entry 1 ("one") is not an index; it and the 1 entry after it are ignored, so no GPU is visible`},
		{"all is no word", text("all"), []int{}, "unset the variable to see all GPUs"},
		{"a range is not one", text("0-2"), []int{0}, `entry 1 ("0-2") is read as 0`},
		{"a sign alone", text("0,+,1"), []int{0}, `entry 2 ("+") is not an index`},
		{"a sign apart", text("0,- 1"), []int{0}, "is not an index"},

		{"text behind the digits is ignored", text("1gpu2,2ampere"), []int{1, 2},
			`entry 1 ("1gpu2") is read as 1, entry 2 ("2ampere") is read as 2`},
		{"a plus", text("2,+3"), []int{2, 3}, `entry 2 ("+3") is read as 3`},
		{"minus nothing", text("2,-0"), []int{2, 0}, `entry 2 ("-0") is read as 0`},
		{"no hexadecimals", text("0x1"), []int{0}, `entry 1 ("0x1") is read as 0`},
		{"no fractions", text("1.9"), []int{1}, `entry 1 ("1.9") is read as 1`},
		{"semicolons", text("0;1"), []int{0}, `entry 1 ("0;1") is read as 0`},
		{"loose text and an end", text("1x,9"), []int{1}, `is read as 1; entry 2 ("9") is out of range`},

		{"twice hides all", text("0,1,2,1"), []int{}, `entry 2 ("1") and entry 4 ("1") name the same GPU`},
		{"twice in a row", text("0,0"), []int{}, `entry 1 ("0") and entry 2 ("0") name the same GPU`},
		{"twice in other words", text("1,+1"), []int{}, "name the same GPU"},
		{"twice after the end is not seen", text("0,1,-1,0"), []int{0, 1}, `entry 3 ("-1") is negative`},

		{"a UUID among indices", text("0,GPU-1,2"), []int{0}, "is a UUID in a list of indices"},
		{"white space before a UUID", text(" GPU-1"), []int{}, "has leading white space"},
		{"a slice among indices", text("0,MIG-1"), []int{0}, "is a UUID in a list of indices"},
	} {
		t.Run(row.name, func(t *testing.T) {
			indices, notices := visible.Select(visible.Env{VisibleDevices: row.value}, alike(4))
			require.Equal(t, row.want, indices)
			if row.says == "" {
				require.Empty(t, notices)
				return
			}
			require.Len(t, notices, 1)
			require.Contains(t, notices[0], row.says)
			require.Contains(t, notices[0], "CUDA_VISIBLE_DEVICES=")
		})
	}
}

func TestUUIDs(t *testing.T) {
	for _, row := range []struct {
		name  string
		value string
		want  []int
		says  string
	}{
		{"a whole UUID", "GPU-e429a63e-c61c-4795-b757-5132caeb8e70", []int{2}, ""},
		{"a beginning", "GPU-9e8d35e3", []int{1}, ""},
		{"the shortest beginnings, in their order", "GPU-ee,GPU-99,GPU-e4,GPU-9e", []int{3, 0, 2, 1}, ""},
		{"a beginning that ends in a dash", "GPU-9e8d35e3-", []int{1}, ""},
		{"several fit", "GPU-e4,GPU-9,GPU-ee", []int{2},
			`entry 2 ("GPU-9") matches the UUIDs of 2 GPUs; it and the 1 entry after it are ignored`},
		{"all fit", "GPU-", []int{}, "matches the UUIDs of 4 GPUs"},
		{"none fits", "GPU-e4,GPU-123,GPU-9e", []int{2}, `entry 2 ("GPU-123") does not match any GPU's UUID`},
		{"too long", "GPU-e429a63e-c61c-4795-b757-5132caeb8e70f", []int{}, "does not match any GPU's UUID"},
		{"capitals", "GPU-E429A63E", []int{}, "does not match any GPU's UUID"},
		{"the prefix in small letters", "gpu-e429a63e", []int{}, "is not an index"},
		{"no prefix", "e429a63e", []int{}, "is not an index"},
		{"digits without a prefix are an index", "9942190a", []int{}, "is out of range: this machine has 4 GPUs"},
		{"an index among UUIDs", "GPU-e4,0", []int{2}, `entry 2 ("0") is not a UUID, but the first entry is`},
		{"white space before", "GPU-e4, GPU-9e", []int{2}, "has white space before the UUID"},
		{"white space after", "GPU-e4 ,GPU-9e", []int{}, "does not match any GPU's UUID"},
		{"twice", "GPU-9e8d35e3,GPU-e4,GPU-9e8", []int{},
			`entry 1 ("GPU-9e8d35e3") and entry 3 ("GPU-9e8") name the same GPU`},
		{"an empty entry", "GPU-e4,,GPU-9e", []int{2}, "is not a UUID"},
		{"a slice among UUIDs", "GPU-e4,MIG-1", []int{2}, "is not a UUID"},
		{"a slice", "MIG-89c850dc-0000-0000-0000-000000000000", []int{},
			"names a MIG instance, but this machine has none"},
		{"a slice as old drivers write it", "MIG-GPU-e429a63e-c61c-4795-b757-5132caeb8e70/1/0,0", []int{},
			"names a MIG instance"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, order := range []*string{nil, text("PCI_BUS_ID")} { // UUIDs do not depend on it
				indices, notices := visible.Select(visible.Env{VisibleDevices: &row.value, DeviceOrder: order}, four)
				require.Equal(t, row.want, indices)
				if row.says == "" {
					require.Empty(t, notices)
					continue
				}
				require.Len(t, notices, 1)
				require.Contains(t, notices[0], row.says)
			}
		})
	}
}

func TestDeviceOrder(t *testing.T) {
	byBus, bySpeed := []int{2, 0, 3, 1}, []int{1, 3, 0, 2}
	for _, row := range []struct {
		name   string
		order  *string
		want   []int
		notice bool
	}{
		{"not set", nil, bySpeed, false},
		{"empty", text(""), bySpeed, false},
		{"fastest first", text("FASTEST_FIRST"), bySpeed, false},
		{"by bus", text("PCI_BUS_ID"), byBus, false},
		{"small letters", text("pci_bus_id"), bySpeed, true},
		{"a blank behind", text("PCI_BUS_ID "), bySpeed, true},
		{"nonsense", text("RANDOM"), bySpeed, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			indices, notices := visible.Select(visible.Env{DeviceOrder: row.order}, four)
			require.Equal(t, row.want, indices)
			if !row.notice {
				require.Empty(t, notices)
			} else {
				require.Len(t, notices, 1)
				require.Contains(t, notices[0], "neither PCI_BUS_ID nor FASTEST_FIRST")
			}
			picked, _ := visible.Select(visible.Env{VisibleDevices: text("3,0"), DeviceOrder: row.order}, four)
			require.Equal(t, []int{row.want[3], row.want[0]}, picked, "indices count in this order")
		})
	}
}

func TestBothVariablesCanBeWrong(t *testing.T) {
	indices, notices := visible.Select(visible.Env{VisibleDevices: text("1,7"), DeviceOrder: text("RANDOM")}, four)
	require.Equal(t, []int{3}, indices)
	require.Len(t, notices, 2)
}

func TestBusOrderIsByNumber(t *testing.T) {
	devices := []visible.Device{
		{PCIBusID: "nonsense"}, {PCIBusID: "0001:00:00.0"}, {PCIBusID: "00000000:0A:00.0"}, {PCIBusID: "0000:9:00.0"},
		{PCIBusID: "0000:0a:01.0"}, {PCIBusID: "0000:0a:00.1"}, {PCIBusID: "also nonsense"}, {PCIBusID: "0000:zz:00.0"},
	}
	indices, notices := visible.Select(visible.Env{DeviceOrder: text("PCI_BUS_ID")}, devices)
	require.Equal(t, []int{3, 2, 5, 4, 1, 7, 6, 0}, indices)
	require.Empty(t, notices)
}

func TestEqualCardsComeByBus(t *testing.T) {
	devices := []visible.Device{{PCIBusID: "0000:81:00.0", Speed: 5}, {PCIBusID: "0000:01:00.0", Speed: 5},
		{PCIBusID: "0000:02:00.0", Speed: 9}}
	indices, _ := visible.Select(visible.Env{}, devices)
	require.Equal(t, []int{2, 1, 0}, indices)
}

func TestMachineWithoutGPUs(t *testing.T) {
	for value, says := range map[string]string{"": "", "-1": "", "0": "machine has 0 GPUs",
		"GPU-1": "does not match any GPU's UUID"} {
		indices, notices := visible.Select(visible.Env{VisibleDevices: &value}, nil)
		require.Equal(t, []int{}, indices)
		if says == "" {
			require.Empty(t, notices)
		} else {
			require.Contains(t, notices[0], says)
		}
	}
	indices, notices := visible.Select(visible.Env{}, nil)
	require.Equal(t, []int{}, indices)
	require.Empty(t, notices)
}

func TestOneGPUHasTheShortestUUID(t *testing.T) {
	indices, notices := visible.Select(visible.Env{VisibleDevices: text("GPU-")}, four[:1])
	require.Equal(t, []int{0}, indices)
	require.Empty(t, notices)
}
