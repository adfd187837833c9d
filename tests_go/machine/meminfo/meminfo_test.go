package meminfo_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/status"
	"gpuconf/gocore/machine/meminfo"
	"gpuconf/tests_go/attempt"
)

func root(text string) fstest.MapFS { return fstest.MapFS{"proc/meminfo": {Data: []byte(text)}} }

func TestHost(t *testing.T) {
	host := attempt.Get(meminfo.ReadFrom(
		root("MemTotal:       131072 kB\nMemFree:  10 kB\nMemAvailable:  65536 kB\nHugePages_Total:  0\n")))
	require.Equal(t, meminfo.Host{TotalBytes: 128 << 20, AvailableBytes: 64 << 20}, host)
}

func TestAvailableNeverExceedsTotal(t *testing.T) {
	host := attempt.Get(meminfo.ReadFrom(root("MemTotal: 1 kB\nMemAvailable: 2 kB\n")))
	require.Equal(t, meminfo.Host{TotalBytes: 1024, AvailableBytes: 1024}, host)
}

func TestUnknown(t *testing.T) {
	for name, fs := range map[string]fstest.MapFS{
		"no file":          {},
		"an old kernel":    root("MemTotal: 1 kB\nMemFree: 1 kB\n"),
		"not a number":     root("MemTotal: x kB\nMemAvailable: 1 kB\n"),
		"too large":        root("MemTotal: 99999999999999999999 kB\nMemAvailable: 1 kB\n"),
		"another unit":     root("MemTotal: 1 MB\nMemAvailable: 1 kB\n"),
		"nothing is there": root(""),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := meminfo.ReadFrom(fs)
			require.Equal(t, status.Unavailable, status.CodeOf(err))
		})
	}
}

func TestThisHost(t *testing.T) {
	host := attempt.Get(meminfo.Read())
	require.Positive(t, host.AvailableBytes)
	require.LessOrEqual(t, host.AvailableBytes, host.TotalBytes)
}
