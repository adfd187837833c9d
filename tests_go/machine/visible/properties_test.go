package visible_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/machine/visible"
)

func drawDevices(t *rapid.T) []visible.Device {
	n := rapid.IntRange(0, 6).Draw(t, "GPUs")
	devices := make([]visible.Device, n)
	for i := range devices {
		devices[i] = visible.Device{
			// One digit of the first two varies, so that prefixes are often, but not always, ambiguous.
			UUID:     fmt.Sprintf("GPU-%x%x000000-0000-0000-0000-%012x", rapid.IntRange(0, 1).Draw(t, "digit"), i, i),
			PCIBusID: fmt.Sprintf("0000:%02x:00.0", 16*i+rapid.IntRange(0, 15).Draw(t, "bus")),
			Speed:    rapid.Uint64Range(0, 3).Draw(t, "speed"),
		}
	}
	return devices
}

// drawEntry draws any text that may be between two commas, valid or not.
func drawEntry(t *rapid.T, devices []visible.Device) string {
	entry := rapid.OneOf(
		rapid.Map(rapid.IntRange(-2, 8), func(i int) string { return fmt.Sprint(i) }),
		rapid.SampledFrom([]string{"", " ", "+1", "-0", "1abc", "GPU-", "GPU-0", "GPU-1", "MIG-0", "all", "NoDevFiles",
			"0x2", "99999999999999999999"}),
		rapid.StringN(0, 4, -1),
	).Draw(t, "entry")
	if len(devices) > 0 && rapid.IntRange(0, 2).Draw(t, "a UUID") == 0 {
		uuid := rapid.SampledFrom(devices).Draw(t, "whose").UUID
		entry = uuid[:rapid.IntRange(4, len(uuid)).Draw(t, "length")]
	}
	return strings.ReplaceAll(entry, ",", ".")
}

func drawOrder(t *rapid.T) *string {
	values := []*string{nil, text(""), text("PCI_BUS_ID"), text("FASTEST_FIRST"), text("OTHER")}
	return values[rapid.IntRange(0, len(values)-1).Draw(t, "order")]
}

func requireSubset(t require.TestingT, indices []int, devices []visible.Device) {
	require.NotNil(t, indices)
	seen := map[int]bool{}
	for _, index := range indices {
		require.True(t, index >= 0 && index < len(devices), "index %d of %d", index, len(devices))
		require.False(t, seen[index], "index %d twice in %v", index, indices)
		seen[index] = true
	}
}

func TestSelectionIsASubsetWithoutRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := drawDevices(t)
		entries := make([]string, rapid.IntRange(0, 6).Draw(t, "entries"))
		for i := range entries {
			entries[i] = drawEntry(t, devices)
		}
		value := strings.Join(entries, ",")
		indices, notices := visible.Select(visible.Env{VisibleDevices: &value, DeviceOrder: drawOrder(t)}, devices)
		requireSubset(t, indices, devices)
		require.LessOrEqual(t, len(notices), 2)
		if len(indices) < len(entries) && value != "" && value != "-1" && value != "NoDevFiles" {
			require.NotEmpty(t, notices, "%q lost entries without a word", value)
		}
	})
}

// TestTheListGrowsUntilItsFirstBadEntry adds entries one by one. As long as all are valid the selection grows at its
// end; from the first that names no GPU on, later entries have no effect; a repetition before that empties it for good.
func TestTheListGrowsUntilItsFirstBadEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices, order := drawDevices(t), drawOrder(t)
		choose := func(entries []string) []int {
			value := strings.Join(entries, ",")
			indices, _ := visible.Select(visible.Env{VisibleDevices: &value, DeviceOrder: order}, devices)
			return indices
		}
		var entries []string
		before := []int{}
		ended := false
		for range rapid.IntRange(1, 6).Draw(t, "entries") {
			entries = append(entries, drawEntry(t, devices))
			now := choose(entries)
			switch {
			case ended:
				require.Equal(t, before, now, "%q matters after the end", entries)
			case len(now) == len(before)+1:
				require.Equal(t, before, now[:len(before)], "%q reordered", entries)
			case len(now) == len(before):
				ended = true
				require.True(t, slices.Equal(before, now), "%q replaced", entries)
			default:
				ended = true
				require.Empty(t, now, "%q shrank", entries)
			}
			before = now
		}
	})
}

// TestWritingTheSelectionOutSelectsItAgain for UUIDs, and for indices into the order.
func TestWritingTheSelectionOutSelectsItAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices, order := drawDevices(t), drawOrder(t)
		value := strings.Join([]string{drawEntry(t, devices), drawEntry(t, devices), drawEntry(t, devices)}, ",")
		chosen, _ := visible.Select(visible.Env{VisibleDevices: &value, DeviceOrder: order}, devices)
		all, _ := visible.Select(visible.Env{DeviceOrder: order}, devices)

		uuids, numbers := make([]string, len(chosen)), make([]string, len(chosen))
		for i, index := range chosen {
			uuids[i] = devices[index].UUID
			numbers[i] = fmt.Sprint(slices.Index(all, index))
		}
		for _, list := range [][]string{uuids, numbers} {
			again := strings.Join(list, ",")
			indices, notices := visible.Select(visible.Env{VisibleDevices: &again, DeviceOrder: order}, devices)
			require.Equal(t, chosen, indices)
			for _, notice := range notices {
				require.Contains(t, notice, "CUDA_DEVICE_ORDER", "nothing to complain of in %q", again)
			}
		}
	})
}

func TestOrderIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := drawDevices(t)
		all, _ := visible.Select(visible.Env{DeviceOrder: drawOrder(t)}, devices)
		requireSubset(t, all, devices)
		require.Len(t, all, len(devices))
	})
}

func FuzzSelect(f *testing.F) {
	for _, seed := range []string{"", "0,2,-1,1", "GPU-9e8d35e3,GPU-e", " +1abc,-0", "MIG-GPU-1/2/3", "0,0", "\x00",
		"99999999999999999999999"} {
		f.Add(seed, "PCI_BUS_ID")
	}
	f.Fuzz(func(t *testing.T, value, order string) {
		env := visible.Env{VisibleDevices: &value, DeviceOrder: &order}
		indices, notices := visible.Select(env, four)
		requireSubset(t, indices, four)
		again, noticesAgain := visible.Select(env, four)
		require.Equal(t, indices, again)
		require.Equal(t, notices, noticesAgain)
	})
}
