package invariants_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpuconf/gocore/base/invariants"
)

func TestAKeptPromiseIsSilent(t *testing.T) {
	require.NotPanics(t, func() { invariants.Check(true, "chunk %d is lost", 3) })
}

func TestABrokenPromisePanicsWithItsText(t *testing.T) {
	require.PanicsWithValue(t, "invariant broken: chunk 3 is lost",
		func() { invariants.Check(false, "chunk %d is lost", 3) })
}
