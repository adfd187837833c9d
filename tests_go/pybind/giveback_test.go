//go:build cgo

package pybind_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/status"
	"gpuconf/pybind/cabi"
)

// Where it need not wait, it does what GiveBack does.
func TestTryGiveBack(t *testing.T) {
	onMachine(t, "T4:1GiB")
	initialize(t)
	b := allocate(t, 0, 1000)
	tried, err := cabi.TryGiveBack(uint64(b.address), uint64(b.id))
	require.NoError(t, err)
	require.True(t, tried)
	tried, err = cabi.TryGiveBack(uint64(b.address), uint64(b.id))
	require.True(t, tried)
	requireKind(t, status.InvalidArgument, err)
	tried, err = cabi.TryGiveBack(1, 1)
	require.NoError(t, err)
	require.False(t, tried, "GiveBack explains addresses of no pool")
}
