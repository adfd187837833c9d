package human_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/human"
	"gpuconf/tests_go/must"
)

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
