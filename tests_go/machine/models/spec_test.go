package models_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/models"
	"gpuconf/tests_go/attempt"
)

func TestParseSpec(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, row := range []struct {
		name      string
		text      string
		canonical string
		memory    []uint64
	}{
		{"one card", "H100-80GB", "H100-80GB", []uint64{81081 * mib}},
		{"a count", "2xH100-80GB", "2xH100-80GB", []uint64{81081 * mib, 81081 * mib}},
		{"a list", "A100-40GB,T4", "A100-40GB,T4", []uint64{40339 * mib, 14912 * mib}},
		{"a memory", "4xT4:8GiB", "4xT4:8GiB", []uint64{8 * gib, 8 * gib, 8 * gib, 8 * gib}},
		{"lower case", "2Xh100-80gb", "2xH100-80GB", []uint64{81081 * mib, 81081 * mib}},
		{"white space", " 2 x H100-80GB : 8 GiB ,\tT4 ", "2xH100-80GB:8GiB,T4",
			[]uint64{8 * gib, 8 * gib, 14912 * mib}},
		{"a name without its only size", "H200", "H200-141GB", []uint64{150109880320}},
		{"a name without its most common size", "2xV100,A100,P100,GH200", "2xV100-16GB,A100-40GB,P100-16GB,GH200-96GB",
			[]uint64{16144 * mib, 16144 * mib, 40339 * mib, 16276 * mib, 96768 * mib}},
		{"a name in words", "2x RTX 4090, GeForce RTX 5090, nvidia h100", "2xRTX4090,RTX5090,H100-80GB",
			[]uint64{24210 * mib, 24210 * mib, 32109 * mib, 81081 * mib}},
		{"a name as the driver reports it", "2xTesla V100-SXM2-32GB,NVIDIA GH200 480GB:90GiB",
			"2xV100-32GB,GH200-96GB:90GiB",
			[]uint64{32494 * mib, 32494 * mib, 90 * gib}},
		{"a name with its only size", "T4-16GB", "T4", []uint64{14912 * mib}},
		{"equal neighbors are one entry", "T4,T4,2xT4", "4xT4",
			[]uint64{14912 * mib, 14912 * mib, 14912 * mib, 14912 * mib}},
		{"equal cards apart stay apart", "T4,K40,T4", "T4,K40,T4", []uint64{14912 * mib, 11996954624, 14912 * mib}},
		{"GB is GiB", "T4:8GB", "T4:8GiB", []uint64{8 * gib}},
		{"KB is KiB, MB is MiB", "T4:1kb,T4:3mb", "T4:1KiB,T4:3MiB", []uint64{1 << 10, 3 << 20}},
		{"TB is TiB", "B200:1TB", "B200-180GB:1TiB", []uint64{1 << 40}},
		{"bytes", "T4:512B", "T4:512B", []uint64{512}},
		{"bytes that make a unit", "T4:1048576B", "T4:1MiB", []uint64{1 << 20}},
		{"the model's own memory is left out", "H100:81081MiB", "H100-80GB", []uint64{81081 * mib}},
		{"a leading zero", "02xT4:08GiB", "2xT4:8GiB", []uint64{8 * gib, 8 * gib}},
		{"profiles", "2xT4:8GiB:no-peers:Driver=12.2,T4: WSL :mps:wsl", "2xT4:8GiB:no-peers:driver=12.2,T4:wsl:mps",
			[]uint64{8 * gib, 8 * gib, 14912 * mib}},
		{"the largest memory", "T4:16TiB", "T4:16TiB", []uint64{16 << 40}},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := attempt.Get(models.ParseSpec(row.text))
			var memory []uint64
			for _, card := range spec.Cards {
				memory = append(memory, card.MemoryBytes)
			}
			require.Equal(t, row.memory, memory)
			require.Equal(t, row.canonical, spec.String())
		})
	}
}

func TestParseSpecRefuses(t *testing.T) {
	for _, row := range []struct{ name, text, says string }{
		{"empty", "", "the specification is empty"},
		{"blank", " \t", "the specification is empty"},
		{"an empty entry", "T4,,T4", "an entry is empty"},
		{"a comma at the end", "T4,", "an entry is empty"},
		{"a count alone", "2x", "names no model"},
		{"a count of nothing", "2x:8GiB", "names no model"},
		{"a memory alone", ":8GiB", "names no model"},
		{"count 0", "0xT4", "the count in \"0xT4\" must be from 1 to 64"},
		{"count 65", "65xT4", "must be from 1 to 64"},
		{"a huge count", "99999999999999999999xT4", "must be from 1 to 64"},
		{"a negative count", "-1xT4", "unknown GPU model"},
		{"a fractional count", "1.5xT4", "unknown GPU model"},
		{"65 in all", "64xT4,K40", "more than 64 GPUs"},
		{"an unknown model", "2xH900", "for another card write MODEL:MEMORY, such as RTX4090:12GiB; "},
		{"a size that the model never had", "A100-64GB", "unknown GPU model \"A100-64GB\"; did you mean A100-80GB?; " +
			"for another card write MODEL:MEMORY, such as RTX4090:12GiB; gpuconf simulate --models lists the models"},
		{"a word far from all names", "python", "unknown GPU model \"python\"; for another card"},
		{"a count and a space", "2 T4", "did you mean 2xT4?"},
		{"no unit", "T4:8", "not a whole number with a unit"},
		{"no number", "T4:GiB", "not a whole number with a unit"},
		{"nothing after the colon", "T4:", "not a whole number with a unit"},
		{"an unknown unit", "T4:8XB", "not a whole number with a unit"},
		{"a fraction", "T4:1.5GiB", "not a whole number with a unit"},
		{"a negative memory", "T4:-1GiB", "not a whole number with a unit"},
		{"two memories", "T4:1GiB:2GiB", "not a whole number with a unit"},
		{"no memory", "T4:0GiB", "memory must be positive, but got 0GiB"},
		{"less than a unit of allocation", "T4:255B", "not a multiple of 256 bytes"},
		{"a crooked memory", "T4:257B", "not a multiple of 256 bytes"},
		{"too much memory", "T4:17TiB", "more than 16TiB"},
		{"a model nearby", "2xH101", "did you mean H100-80GB?; for another card"},
		{"a model's number alone", "3090", "did you mean RTX3090?; for another card"},
		{"the beginning of a profile", "A100:mig", "did you mean mig-container?"},
		{"an unknown profile", "T4:8GiB:ws", "unknown profile \"ws\"; known profiles: wsl, mig-container, unified, " +
			"no-peers, mps, no-limit, contexts, driver=VERSION; did you mean wsl?"},
		{"a driver that is none", "T4:driver=new", "driver \"new\" is not a version of CUDA, such as driver=11.8"},
		{"a driver that never was", "T4:driver=11.9", "a driver for CUDA \"11.9\" is not simulated; known are 11.0 " +
			"to 11.8"},
		{"two drivers of a card", "T4:driver=11.8:driver=12.4", "a machine has one driver"},
		{"two drivers of a machine", "T4:driver=11.8,L4:driver=12.4", "it has two drivers, 11.8 and 12.4; a machine " +
			"has one"},
		{"MIG on a card without it", "T4:mig-container", "T4 is not simulated with MIG; models with mig-container: " +
			"B200-180GB, H200-141GB"},
		{"MIG under WSL", "A100:mig-container:wsl", "mig-container excludes wsl and unified"},
		{"two MIG instances", "2xA100:mig-container", "a machine with mig-container has one card"},
		{"a NUL", "T4\x00", "unknown GPU model \"T4\\x00\""},
		{"memory over 64 bits", "T4:99999999999999999999TiB", "more than 16TiB"},
		{"memory over 64 bits by its unit", "T4:18014398509481985KiB", "more than 16TiB"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := models.ParseSpec(row.text)
			require.ErrorContains(t, err, row.says)
			require.Equal(t, status.InvalidArgument, status.CodeOf(err))
			if !slices.Contains(ofTheWhole, row.name) {
				require.Regexp(t, "such as |an example is ", err.Error())
			}
		})
	}
}

// ofTheWhole are the complaints about entries that are right, each by itself.
var ofTheWhole = []string{"65 in all", "two drivers of a machine", "two MIG instances"}

func TestUnknownModelNamesTheWayOut(t *testing.T) {
	_, err := models.ParseSpec("Voodoo2")
	require.ErrorContains(t, err, "for another card write MODEL:MEMORY, such as RTX4090:12GiB")
	require.ErrorContains(t, err, "gpuconf simulate --models")
	attempt.Get(models.ParseSpec("RTX4090:12GiB"))
}

// drawSpec draws any spec that ParseSpec can return.
func drawSpec(t *rapid.T) models.Spec {
	all := models.Models()
	spec := models.Spec{}
	for range rapid.IntRange(1, 8).Draw(t, "cards") {
		card := models.Card{Model: rapid.SampledFrom(all).Draw(t, "model")}
		card.MemoryBytes = card.Model.MemoryBytes
		if rapid.Bool().Draw(t, "own memory") {
			card.MemoryBytes = 256 * rapid.Uint64Range(1, (16<<40)/256).Draw(t, "units")
		}
		spec.Cards = append(spec.Cards, card)
	}
	return spec
}

func TestSpecRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		require.Equal(t, spec, attempt.Get(models.ParseSpec(spec.String())))
		loud := attempt.Get(models.ParseSpec(" " + strings.ToUpper(strings.ReplaceAll(spec.String(), ",", " , "))))
		require.Equal(t, spec, loud)
	})
}

func FuzzParseSpec(f *testing.F) {
	for _, seed := range []string{"2xH100-80GB", "A100-40GB,T4", "4xT4:8GiB", " 1 x k40 : 256 b ", "0x",
		"T4:18014398509481985KiB", "T4:1GiB:mps:driver=11.8", "A100:mig-container", "2xT4:driver=11.8,L4:driver=12.4",
		"T4:ws", "\xff\u00a0T4\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := models.ParseSpec(text)
		if err != nil {
			require.Equal(t, status.InvalidArgument, status.CodeOf(err))
			return
		}
		require.NotEmpty(t, spec.Cards)
		require.LessOrEqual(t, len(spec.Cards), models.MaxCards)
		require.Equal(t, spec, attempt.Get(models.ParseSpec(spec.String())))
	})
}

func TestALongSpecIsNotQuotedWhole(t *testing.T) {
	for _, text := range []string{strings.Repeat("H100, ", 9999), strings.Repeat("Voodoo2, ", 9999),
		strings.Repeat("V", 100_000), "T4:" + strings.Repeat("9x ", 9999)} {
		_, err := models.ParseSpec(text)
		require.ErrorContains(t, err, "bytes ...")
		require.Less(t, len(err.Error()), 900)
	}
}
