package human_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/human"
	"gpuconf/tests_go/must"
)

func TestBytes(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0B", 1: "1B", 1023: "1023B", 1024: "1.0KiB", 1536: "1.5KiB", 1_000_000: "976.6KiB", 1_048_575: "1024.0KiB",
		1_048_576: "1.00MiB",
		1_572_864: "1.50MiB", 7 << 20: "7.00MiB", 1<<30 - 1: "1024.00MiB", 85_899_345_920: "80.00GiB",
		1 << 40: "1.00TiB", 1 << 50: "1.00PiB", 1 << 60: "1.00EiB",
		math.MaxInt64: "8.00EiB", math.MaxUint64: "16.00EiB",
	} {
		require.Equal(t, want, human.Bytes(bytes), bytes)
	}
}

func TestExact(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1.0KiB (1024 bytes)", 9437185: "9.00MiB (9437185 bytes)",
		math.MaxUint64: "18446744073709551615 bytes",
	} {
		require.Equal(t, want, human.Exact(bytes), bytes)
	}
}

func TestCount(t *testing.T) {
	require.Equal(t, "0 blocks, 1 block, 2 blocks", human.Count(0, "block")+", "+human.Count(1,
		"block")+", "+human.Count(2, "block"))
}

// The tables of tests_py/config/test_sizes.py.
func TestParseSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"2000000": 2_000_000, " 0002000000 ": 2_000_000, "2000000B": 2_000_000, "1GiB": 1 << 30, "1 gib": 1 << 30,
		"1.5GiB": 3 << 29,
		".5GiB":  1 << 29, "2.GiB": 2 << 30, "500MB": 500_000_000, "0.001TB": 1_000_000_000,
		"3.3333333333333333333333333333333333333333MB": 3_333_333, "9223372036854775807": 1<<63 - 1,
	} {
		require.Equal(t, want, must.OK(human.ParseSize(text))(t, text), text)
	}
	for _, text := range []string{
		"", " ", "much", "GiB", "-1GiB", "+1GiB", "1e9", "1_000_000", "0x100000", "inf", "nan", "1.2.3MiB", "1GiBB",
		"6XB", "1 000 000", "1,5GiB",
		"\u0661\u0662", "\uff11GiB", "\u00b2GiB", "1G\u0131B", "1\u00a0GiB", "50%", ".", ".GiB",
	} {
		require.ErrorContains(t, must.Err(human.ParseSize(text)), "is not a size", text)
	}
	require.ErrorContains(t, must.Err(human.ParseSize("1.5")), "is not a whole number of bytes")
	for _, text := range []string{"9223372036854775808", "8388608TiB", strings.Repeat("9", 5000)} {
		require.ErrorContains(t, must.Err(human.ParseSize(text)), "is too large", text)
	}
}
