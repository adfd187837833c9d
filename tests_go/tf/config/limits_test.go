package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/tf/config"
)

// limits returns a configuration of one logical device with a limit in bytes, or else in MiB.
func limits(bytes uint64, mib float64) config.LogicalConfigs {
	item := config.LogicalConfig{LimitBytes: &bytes}
	if bytes == 0 {
		item = config.LogicalConfig{MemoryLimitMiB: &mib}
	}
	return config.LogicalConfigs{Items: []config.LogicalConfig{item}}
}

func TestALimitInBytesIsTheLimitOfThePool(t *testing.T) {
	for _, bytes := range []uint64{1, 500_000_000, 1<<44 + 1} { // float32 has no 1<<44 + 1
		s := newSession("P2")
		require.NoError(t, s.state.SetLogicalConfigs(arg("g0"), limits(bytes, 0)))
		require.Equal(t, []uint64{bytes}, s.state.Limits(1))
		layout, err := s.state.Layout(s.facts)
		require.NoError(t, err)
		require.Equal(t, bytes, layout.Devices[1].LimitBytes)
	}
	require.ErrorContains(t, newSession("P2").state.SetLogicalConfigs(arg("c"), limits(1<<20, 0)),
		"Setting memory limit on CPU virtual devices is currently not supported")
}

func TestALimitInBytesEqualsTheSameInMiB(t *testing.T) {
	const changed = "Virtual devices cannot be modified after being initialized"
	for _, test := range []struct {
		stored, given config.LogicalConfigs
		err           string
	}{
		{limits(500_000_000, 0), limits(500_000_000, 0), ""},
		{limits(500_000_000, 0), limits(500_000_001, 0), changed},
		{limits(1<<30, 0), limits(0, 1024), ""},
		{limits(0, 1024), limits(1<<30, 0), ""},
		{limits(0, 1024), limits(1<<30+1, 0), changed},
		{limits(500_000_000, 0), limits(0, 500_000_000./(1<<20)), changed}, // truncated to whole MiB
		{limits(500_000_000, 0), config.LogicalConfigs{}, changed},
	} {
		s := newSession("P2")
		require.NoError(t, s.state.SetLogicalConfigs(arg("g0"), test.stored))
		s.state.Initialize("")
		if err := s.state.SetLogicalConfigs(arg("g0"), test.given); test.err == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, test.err)
		}
	}
}
