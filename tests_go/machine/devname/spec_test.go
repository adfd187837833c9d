package devname_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/devname"
)

func text(s string) *string { return &s }

func number(n string) *devname.Int { i := devname.Int(n); return &i }

func spec(t *testing.T, s string) devname.Spec {
	parsed, err := devname.ParseSpec(s)
	require.NoError(t, err)
	return parsed
}

// canonicalName is the spelling that a spec has after it was read.
func canonicalName(text string) (string, error) {
	spec, err := devname.ParseSpec(text)
	if err != nil {
		return "", err
	}
	return spec.String(), nil
}

// Cases 124 to 131, except what concerns Python objects.
func TestSpecs(t *testing.T) {
	_, err := devname.ParseSpec("/job:muu/device:GPU:2/cpu:0") // 124
	require.EqualError(t, err,
		"Multiple device types are not allowed while parsing the device spec: /job:muu/device:GPU:2/cpu:0.")
	_, err = devname.ParseSpec("/job:j/replica:foo") // 125
	require.EqualError(t, err, "invalid literal for int() with base 10: 'foo'")
	_, err = devname.ParseSpec("/barcpugpu:muu/baz:2")
	require.EqualError(t, err,
		"Unknown attribute 'barcpugpu' is encountered while parsing the device spec: '/barcpugpu:muu/baz:2'.")

	canonical, err := canonicalName("/device:GPU:0/task:0/replica:0/job:foo") // 126
	require.NoError(t, err)
	require.Equal(t, "/job:foo/replica:0/task:0/device:GPU:0", canonical)

	whole := devname.Spec{Job: text("foo"), Replica: number("12"), Task: number("3"), Type: text("GPU")} // 127
	require.Equal(t, "/job:foo/replica:12/task:3/device:GPU:*", whole.String())

	merged := spec(t, "/task:1/cpu:0").Override(spec(t, "/job:boo/device:GPU:0")) // 128
	require.Equal(t, "/job:boo/task:1/device:GPU:0", merged.String())
	merged = devname.Spec{Index: number("3")}.Override(devname.Spec{Type: text("GPU")}) // 129
	require.Equal(t, "/device:GPU:3", merged.String())
	require.Empty(t, devname.Spec{Index: number("3")}.String(), "an index without a type is not written")

	require.Equal(t, spec(t, "/gpu:0"), devname.Spec{Type: text("GPU"), Index: number("0")}) // 131
}

func TestSpecErrorsComeInTensorFlowsOrder(t *testing.T) {
	for _, row := range []struct{ name, text, starts string }{
		{"a word before numbers, wherever it stands", "/replica:x/task:y/bogus", "Unknown attribute 'bogus'"},
		{"replica before task", "/task:y/replica:x", "invalid literal for int() with base 10: 'x'"},
		{"a device index where it stands", "/device:GPU:x/bogus", "invalid literal for int() with base 10: 'x'"},
		{"a second type before its index", "/gpu:0/cpu:x", "Multiple device types"},
		{"a replaced number is never read", "/replica:x/replica:1/bogus:1", "Unknown attribute 'bogus'"},
	} {
		_, err := devname.ParseSpec(row.text)
		require.Error(t, err, row.name)
		require.True(t, strings.HasPrefix(err.Error(), row.starts), "%s: %s", row.name, err)
	}
	require.Equal(t, "/replica:1", spec(t, "/replica:x/replica:1").String())
	require.Equal(t, "/device:GPU:0", spec(t, "/:7/gpu:0").String(), "a part without a word is skipped")
}

// TestPythonInts has CPython's own results.
func TestPythonInts(t *testing.T) {
	for in, want := range map[string]string{
		"7": "7", "+7": "7", "-7": "-7", "-0": "0", "00": "0", "-00_1": "-1", "1_0": "10", "0_0": "0",
		" 1\t\n": "1", "\u00a01": "1", "\u2003\uff11\uff12": "12", "\u0663": "3", "\U0001d7d9": "1", "\x1c\u0661": "1",
		"99999999999999999999999999": "99999999999999999999999999",
	} {
		got, err := devname.ParseInt(in)
		require.NoError(t, err, "%q", in)
		require.Equal(t, devname.Int(want), got, "%q", in)
	}
	for in, repr := range map[string]string{
		"": `''`, "  ": `'  '`, "x": `'x'`, "_1": `'_1'`, "1_": `'1_'`, "1__0": `'1__0'`, "+ 1": `'+ 1'`,
		"++1": `'++1'`,
		"1.0": `'1.0'`, "0x1": `'0x1'`, "1 2": `'1 2'`, "+": `'+'`,
		"\x1c1": `'\x1c1'`, "1\u200b": `'1\u200b'`, "\u00ad": `'\xad'`, "\U000e0001": `'\U000e0001'`, "\x7f": `'\x7f'`,
		"\u00e9": "'\u00e9'", "a\nb\\": `'a\nb\\'`, "it's": `"it's"`, `a"'b`: `'a"\'b'`,
		strings.Repeat("x", 300): "'" + strings.Repeat("x", 199),
	} {
		_, err := devname.ParseInt(in)
		require.EqualError(t, err, "invalid literal for int() with base 10: "+repr, "%q", in)
	}
	_, err := devname.ParseInt(strings.Repeat("0", 5000))
	require.EqualError(t, err, "Exceeds the limit (4300 digits) for integer string conversion: value has 5000 digits; "+
		"use sys.set_int_max_str_digits() to increase the limit")
}
