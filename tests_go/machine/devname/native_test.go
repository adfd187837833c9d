package devname_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/machine/devname"
)

func full(t *testing.T, s string) devname.Name {
	name, ok := devname.ParseFullName(s)
	require.True(t, ok, s)
	return name
}

func TestFullNames(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		"/":                                "",
		"/job:a_1/replica:2/task:3":        "/job:a_1/replica:2/task:3",
		"/device:GPU":                      "/device:GPU:*",
		"/device:GPU:*":                    "/device:GPU:*",
		"/device:*:7":                      "", // an id without a type is not written
		"/cpu:1":                           "/device:CPU:1",
		"/gpu:*":                           "/device:GPU:*",
		"/device:gpu:0":                    "/device:gpu:0",
		"/job:a/job:b":                     "/job:b",
		"/job:a/job:*":                     "",
		"/gpu:1/device:CPU":                "/device:CPU:*",
		"/task:4294967297":                 "/task:1",
		"/replica:18446744073709551615":    "/replica:-1", // 64 bits are read, 32 are kept
		"/device:GPU:0/task:1/job:a":       "/job:a/task:1/device:GPU:0",
		"/replica:*/task:*/job:*/device:*": "",
	} {
		require.Equal(t, want, full(t, in).String(), "%q", in)
	}
	for _, in := range []string{
		"//", "GPU:0", "job:a", "/job:", "/job:1a", "/job:a-b", "/job:a:", "/task:", "/task:-1", "/task:+1", "/task: 1",
		"/replica:18446744073709551616", "/device:", "/device:1", "/device:GPU:", "/device:GPU:x",
		"/device:*x", "/Gpu:0",
		"/gpu", "/gpu:", "/tpu:0", "/device:GPU:0/", "/device:GPU:0 ", " /device:GPU:0", "/device:GPU:0:0", "/Job:a",
	} {
		_, ok := devname.ParseFullName(in)
		require.False(t, ok, "%q", in)
	}
}

func TestLocalNames(t *testing.T) {
	for in, want := range map[string]string{"GPU:0": "/device:GPU:0", "gpu:07": "/device:gpu:7",
		"a_1:2": "/device:a_1:2"} {
		name, ok := devname.ParseLocalName(in)
		require.True(t, ok, in)
		require.Equal(t, want, name.String())
	}
	for _, in := range []string{"", "GPU", "GPU:", "GPU:*", "/GPU:0", "GPU:0:0", "GPU:-1", "1:0", ":0", "GPU:0 ",
		"GPU: 0", "GPU:18446744073709551616"} {
		_, ok := devname.ParseLocalName(in)
		require.False(t, ok, "%q", in)
	}
}

func TestAnUnsetFieldIsForgotten(t *testing.T) {
	require.Equal(t, devname.Name{}, full(t, "/job:a/replica:1/task:2/gpu:3/job:*/replica:*/task:*/device:*"))
}

func TestDevicesOfThisProcess(t *testing.T) {
	require.Equal(t, "/job:localhost/replica:0/task:0/device:GPU:1", gpu1.String())
	require.Equal(t, "/device:GPU:1", gpu1.Local())
	require.Equal(t, gpu1, full(t, gpu1.String()))
	require.Equal(t, devname.FirstDevice, cpu0.String())
	require.True(t, gpu1.IsComplete())
	require.False(t, full(t, "/gpu:1").IsComplete())
}

func TestMatching(t *testing.T) {
	for _, row := range []struct {
		name                string
		a, b                string
		compatible, matches bool
	}{
		{"the empty pattern takes all", "", "/gpu:0", true, true},
		{"a pattern's field must be equal", "/gpu:*", "/gpu:0", true, true},
		{"types differ", "/cpu:*", "/gpu:0", false, false},
		{"ids differ", "/gpu:1", "/gpu:0", false, false},
		{"jobs differ", "/job:a", "/job:b/gpu:0", false, false},
		{"replicas differ", "/replica:1", "/replica:2", false, false},
		{"tasks differ", "/task:1", "/task:2", false, false},
		{"a type's case counts", "/device:gpu:0", "/device:GPU:0", false, false},
		{"an id that only the pattern has", "/gpu:0", "/gpu:*", true, false},
		{"a field that only the pattern has", "/job:a/gpu:0", "/gpu:0", true, false},
	} {
		a, b := full(t, row.a), full(t, row.b)
		require.Equal(t, row.compatible, devname.Compatible(a, b), row.name)
		require.Equal(t, row.compatible, devname.Compatible(b, a), row.name)
		require.Equal(t, row.matches, a.Matches(b), row.name)
	}
}

func TestNoMatchTellsWhatThereIs(t *testing.T) {
	_, err := devname.MatchMemoryDevice(machines["P3"], "gpu:0")
	there := "(available: CPU:0, GPU:0, GPU:1; device types are case-sensitive)"
	require.EqualError(t, err, "No matching devices found for 'gpu:0' "+there+". Did you mean 'GPU:0'?")
	_, err = devname.MatchMemoryDevice(machines["P3"], "cuda:1")
	require.EqualError(t, err, "No matching devices found for 'cuda:1' "+there+". Did you mean 'GPU:1'?")
	_, err = devname.MatchMemoryDevice(machines["P3"], "cuda:7")
	require.EqualError(t, err, "No matching devices found for 'cuda:7' "+there)
}
