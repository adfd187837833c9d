package human_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/human"
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
